// Probe: blocks that find words of an earlier launch in shared memory before they write their own, and where. A mark
// holds the number of its launch, so it tells how old it is.
//
// out[0]: the number of blocks that found some; after it, for each of the first 64, eight numbers: block, multiprocessor,
// words found, first index, word found there, its own number, the smallest and the largest dynamic address of its block.
extern "C" __global__ void __launch_bounds__(128) find_marks(unsigned long long* out, unsigned run, unsigned) {
  extern __shared__ volatile unsigned words[];
  __shared__ unsigned hits, first, seen;
  if (threadIdx.x == 0) hits = 0, first = 0xffffffffu, seen = 0;
  __syncthreads();
  const unsigned mark = 0xa5c30000u | run;
  unsigned found = 0, where = 0xffffffffu;
  for (int i = threadIdx.x; i < 10240; i += 128) {
    const unsigned word = words[i];
    if (word >> 16 == 0xa5c3u && word != mark) {
      if (found++ == 0) where = i;
      seen = word;
    }
    words[i] = mark;
  }
  if (found > 0) {
    atomicAdd(&hits, found);
    atomicMin(&first, where);
  }
  __syncthreads();
  if (threadIdx.x != 0 || hits == 0) return;
  const unsigned long long at = atomicAdd(out, 1ull);
  if (at >= 64) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  unsigned long long* const row = out + 1 + 8 * at;
  row[0] = blockIdx.x, row[1] = sm, row[2] = hits, row[3] = first, row[4] = seen, row[5] = run;
  row[6] = static_cast<unsigned>(__cvta_generic_to_shared(const_cast<unsigned*>(words)));
  row[7] = gridDim.x;
}

// Brings 512 KiB of memory through the first-level cache of each multiprocessor.
extern "C" __global__ void __launch_bounds__(1024) read_through_l1(unsigned long long* out, unsigned words, unsigned) {
  unsigned long long sum = 0;
  for (unsigned i = threadIdx.x; i < words; i += 1024) {
    unsigned long long value;
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(value) : "l"(out + 1024 + i) : "memory");
    sum += value;
  }
  if (sum == 42) out[1023] = sum;
}
