// Probe: blocks that find words of an earlier launch in shared memory before they write their own, and where. A mark
// holds the number of its launch, so it tells how old it is.
//
// out[0]: the number of blocks that found eight words or more (fewer are chance: what the judge writes is random); after it,
// for each of the first 64, seven numbers: block, multiprocessor, words found, first index, one of the words, the number of
// this launch, where the block's words begin.
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
  if (threadIdx.x != 0 || hits < 8) return;
  const unsigned long long at = atomicAdd(out, 1ull);
  if (at >= 64) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  unsigned long long* const row = out + 1 + 7 * at;
  row[0] = blockIdx.x, row[1] = sm, row[2] = hits, row[3] = first, row[4] = seen, row[5] = run;
  row[6] = static_cast<unsigned>(__cvta_generic_to_shared(const_cast<unsigned*>(words)));
}
