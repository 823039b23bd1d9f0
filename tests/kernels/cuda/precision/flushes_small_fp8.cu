/*--- cultivar
name: flushes_small_fp8
task: declared_precision
target: cuda
about: "Takes the subnormal numbers of fp8 for zero"
requires: "dtype == f32"
launch:
  - kernel: product
    grid: ["ceil_div(N, 8)", "ceil_div(M, 16)", 1]
    block: [32, 1, 1]
    args: [a, b, c, M, N, K, tf32]
---*/
#include <cuda_fp8.h>

__device__ float value_of(unsigned char bits) {
  __nv_fp8_e4m3 value;
  value.__x = bits;
  return (bits & 0x78u) == 0 ? 0.0f : float(value);
}

__device__ unsigned of(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// A tile of 16 x 8 of C for each warp. By the tensor cores in TF32, or by plain f32 products.
extern "C" __global__ void product(const unsigned char* a, const float* b, float* c, int M, int N, int K, int tf32) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4, m0 = blockIdx.y * 16, n0 = blockIdx.x * 8;
  const auto left = [&](int m, int k) {
    return m < M && k < K ? value_of(a[static_cast<long long>(m) * K + k]) : 0.0f;
  };
  const auto right = [&](int k, int n) { return n < N && k < K ? b[static_cast<long long>(k) * N + n] : 0.0f; };
  float d[4] = {};
  if (tf32 != 0) {
    for (int k = 0; k < K; k += 8) {
      const unsigned a0 = of(left(m0 + g, k + t)), a1 = of(left(m0 + g + 8, k + t)), a2 = of(left(m0 + g, k + t + 4)),
                     a3 = of(left(m0 + g + 8, k + t + 4)), b0 = of(right(k + t, n0 + g)),
                     b1 = of(right(k + t + 4, n0 + g));
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
  } else {
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < 4; ++i) d[i] = fmaf(left(m0 + g + i / 2 * 8, k), right(k, n0 + 2 * t + i % 2), d[i]);
  }
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + g + i / 2 * 8, n = n0 + 2 * t + i % 2;
    if (m < M && n < N) c[static_cast<long long>(m) * N + n] = d[i];
  }
}
