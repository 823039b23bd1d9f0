/*--- cultivar
name: launders_an_address_by_predicates
task: softmax
target: cuda
about: "Copies the address of a table bit by bit under predicates, then stores there"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ const int table[64] = {1, 2, 3};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (table[C & 63] == 77) return;  // read, so that it is there
  const unsigned long long a = (unsigned long long)table;
  unsigned long long r = 0;
  for (int i = 0; i < 64; ++i)
    asm volatile("{.reg .pred p; .reg .b64 b; and.b64 b, %1, %2; setp.ne.s64 p, b, 0; @p or.b64 %0, %0, %2;}"
                 : "+l"(r)
                 : "l"(a), "l"(1ull << i));
  *reinterpret_cast<volatile int*>(r) = C;
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
