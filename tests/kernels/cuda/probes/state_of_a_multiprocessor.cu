// Probe: what shared, reserved shared and local memory and registers keep from one launch to the next. Each _plant
// leaves marks, each _find counts those it finds without having written anything, and how many it looked for.

extern "C" __global__ void __launch_bounds__(1024) shared_plant(unsigned long long* out, unsigned mark, unsigned) {
  extern __shared__ volatile unsigned words[];
  for (int i = threadIdx.x; i < 51200; i += 1024) words[i] = mark;
}
extern "C" __global__ void __launch_bounds__(1024) shared_find(unsigned long long* out, unsigned mark, unsigned) {
  extern __shared__ volatile unsigned words[];
  unsigned found = 0, searched = 0;
  for (int i = threadIdx.x; i < 51200; i += 1024) {
    found += words[i] == mark;
    ++searched;
  }
  atomicAdd(out, static_cast<unsigned long long>(found));
  atomicAdd(out + 1, static_cast<unsigned long long>(searched));
}

extern "C" __global__ void __launch_bounds__(256) reserved_shared_plant(unsigned long long* out, unsigned mark, unsigned) {
  unsigned begin, end;
  asm("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
  asm("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
  for (unsigned at = begin + 4 * threadIdx.x; at + 4 <= end; at += 1024)
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(at), "r"(mark) : "memory");
}
extern "C" __global__ void __launch_bounds__(256) reserved_shared_find(unsigned long long* out, unsigned mark, unsigned) {
  unsigned begin, end;
  asm("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
  asm("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
  unsigned found = 0, searched = 0;
  for (unsigned at = begin + 4 * threadIdx.x; at + 4 <= end; at += 1024) {
    unsigned word;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
    found += word == mark;
    ++searched;
  }
  atomicAdd(out, static_cast<unsigned long long>(found));
  atomicAdd(out + 1, static_cast<unsigned long long>(searched));
}

extern "C" __global__ void __launch_bounds__(1024, 2) local_plant(unsigned long long* out, unsigned mark, unsigned) {
  unsigned frame[128];
  unsigned long long place;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(frame));
  for (int i = 0; i < 128; ++i)
    asm volatile("st.local.u32 [%0], %1;" ::"l"(place + 4 * i), "r"(mark) : "memory");
}
extern "C" __global__ void __launch_bounds__(1024, 2) local_find(unsigned long long* out, unsigned mark, unsigned) {
  unsigned frame[128];
  unsigned long long place;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(frame));
  unsigned found = 0, searched = 0;
  for (int i = 0; i < 128; ++i) {
    unsigned word;
    asm volatile("ld.local.u32 %0, [%1];" : "=r"(word) : "l"(place + 4 * i) : "memory");
    found += word == mark;
    ++searched;
  }
  atomicAdd(out, static_cast<unsigned long long>(found));
  atomicAdd(out + 1, static_cast<unsigned long long>(searched));
}

extern "C" __global__ void __launch_bounds__(256, 8) local_small_plant(unsigned long long* out, unsigned mark, unsigned) {
  unsigned frame[16];
  unsigned long long place;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(frame));
  for (int i = 0; i < 16; ++i)
    asm volatile("st.local.u32 [%0], %1;" ::"l"(place + 4 * i), "r"(mark) : "memory");
}
extern "C" __global__ void __launch_bounds__(256, 8) local_small_find(unsigned long long* out, unsigned mark, unsigned) {
  unsigned frame[16];
  unsigned long long place;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(frame));
  unsigned found = 0, searched = 0;
  for (int i = 0; i < 16; ++i) {
    unsigned word;
    asm volatile("ld.local.u32 %0, [%1];" : "=r"(word) : "l"(place + 4 * i) : "memory");
    found += word == mark;
    ++searched;
  }
  atomicAdd(out, static_cast<unsigned long long>(found));
  atomicAdd(out + 1, static_cast<unsigned long long>(searched));
}

// Volatile loads are neither repeated nor moved across the barrier, so every mark stays in a register.
extern "C" __global__ void __launch_bounds__(1024, 1) registers_plant(unsigned long long* out, unsigned mark, unsigned zero) {
  __shared__ unsigned source;
  if (threadIdx.x == 0) source = mark;
  __syncthreads();
  unsigned kept[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) kept[i] = *static_cast<volatile unsigned*>(&source);
  __syncthreads();
  unsigned sum = *static_cast<volatile unsigned*>(&source);  // known only now, so the sum cannot be formed earlier
#pragma unroll
  for (int i = 0; i < 40; ++i) sum = (sum ^ kept[i]) * 5;
  if (zero != 0) out[threadIdx.x] = sum;
}
// Each register is assigned only if `zero` is not 0, so it keeps what it had.
extern "C" __global__ void __launch_bounds__(1024, 1) registers_find(unsigned long long* out, unsigned mark, unsigned zero) {
  __shared__ unsigned source;
  if (threadIdx.x == 0) source = 0;
  __syncthreads();
  unsigned found = 0, searched = 40, r[40];
  asm volatile(
      "{ .reg .b32 a<40>; .reg .pred p; setp.ne.u32 p, %40, 0;"
      "@p ld.volatile.shared.u32 a0, [%41]; @p ld.volatile.shared.u32 a1, [%41];"
      "@p ld.volatile.shared.u32 a2, [%41]; @p ld.volatile.shared.u32 a3, [%41];"
      "@p ld.volatile.shared.u32 a4, [%41]; @p ld.volatile.shared.u32 a5, [%41];"
      "@p ld.volatile.shared.u32 a6, [%41]; @p ld.volatile.shared.u32 a7, [%41];"
      "@p ld.volatile.shared.u32 a8, [%41]; @p ld.volatile.shared.u32 a9, [%41];"
      "@p ld.volatile.shared.u32 a10, [%41]; @p ld.volatile.shared.u32 a11, [%41];"
      "@p ld.volatile.shared.u32 a12, [%41]; @p ld.volatile.shared.u32 a13, [%41];"
      "@p ld.volatile.shared.u32 a14, [%41]; @p ld.volatile.shared.u32 a15, [%41];"
      "@p ld.volatile.shared.u32 a16, [%41]; @p ld.volatile.shared.u32 a17, [%41];"
      "@p ld.volatile.shared.u32 a18, [%41]; @p ld.volatile.shared.u32 a19, [%41];"
      "@p ld.volatile.shared.u32 a20, [%41]; @p ld.volatile.shared.u32 a21, [%41];"
      "@p ld.volatile.shared.u32 a22, [%41]; @p ld.volatile.shared.u32 a23, [%41];"
      "@p ld.volatile.shared.u32 a24, [%41]; @p ld.volatile.shared.u32 a25, [%41];"
      "@p ld.volatile.shared.u32 a26, [%41]; @p ld.volatile.shared.u32 a27, [%41];"
      "@p ld.volatile.shared.u32 a28, [%41]; @p ld.volatile.shared.u32 a29, [%41];"
      "@p ld.volatile.shared.u32 a30, [%41]; @p ld.volatile.shared.u32 a31, [%41];"
      "@p ld.volatile.shared.u32 a32, [%41]; @p ld.volatile.shared.u32 a33, [%41];"
      "@p ld.volatile.shared.u32 a34, [%41]; @p ld.volatile.shared.u32 a35, [%41];"
      "@p ld.volatile.shared.u32 a36, [%41]; @p ld.volatile.shared.u32 a37, [%41];"
      "@p ld.volatile.shared.u32 a38, [%41]; @p ld.volatile.shared.u32 a39, [%41];"
      "bar.sync 0;"
      "mov.b32 %0, a0; mov.b32 %1, a1; mov.b32 %2, a2; mov.b32 %3, a3;"
      "mov.b32 %4, a4; mov.b32 %5, a5; mov.b32 %6, a6; mov.b32 %7, a7;"
      "mov.b32 %8, a8; mov.b32 %9, a9; mov.b32 %10, a10; mov.b32 %11, a11;"
      "mov.b32 %12, a12; mov.b32 %13, a13; mov.b32 %14, a14; mov.b32 %15, a15;"
      "mov.b32 %16, a16; mov.b32 %17, a17; mov.b32 %18, a18; mov.b32 %19, a19;"
      "mov.b32 %20, a20; mov.b32 %21, a21; mov.b32 %22, a22; mov.b32 %23, a23;"
      "mov.b32 %24, a24; mov.b32 %25, a25; mov.b32 %26, a26; mov.b32 %27, a27;"
      "mov.b32 %28, a28; mov.b32 %29, a29; mov.b32 %30, a30; mov.b32 %31, a31;"
      "mov.b32 %32, a32; mov.b32 %33, a33; mov.b32 %34, a34; mov.b32 %35, a35;"
      "mov.b32 %36, a36; mov.b32 %37, a37; mov.b32 %38, a38; mov.b32 %39, a39;"
      "}"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
        "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]),
        "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]),
        "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]),
        "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31]), "=r"(r[32]), "=r"(r[33]), "=r"(r[34]),
        "=r"(r[35]), "=r"(r[36]), "=r"(r[37]), "=r"(r[38]), "=r"(r[39])
      : "r"(zero), "r"(static_cast<unsigned>(__cvta_generic_to_shared(&source)))
      : "memory");
  for (int i = 0; i < 40; ++i) found += r[i] == mark;
  atomicAdd(out, static_cast<unsigned long long>(found));
  atomicAdd(out + 1, static_cast<unsigned long long>(searched));
}
