/*--- cultivar
name: launders_an_address_by_loads
task: softmax
target: cuda
about: "Reads each byte of the address of a table out of a table of all bytes, then stores there"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ const int table[64] = {1, 2, 3};
#define FOUR(n) n, n + 1, n + 2, n + 3
#define SIXTEEN(n) FOUR(n), FOUR(n + 4), FOUR(n + 8), FOUR(n + 12)
#define SIXTY_FOUR(n) SIXTEEN(n), SIXTEEN(n + 16), SIXTEEN(n + 32), SIXTEEN(n + 48)
__device__ const unsigned char same[256] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192)};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (table[C & 63] == 77) return;  // read, so that it is there
  const unsigned long long a = (unsigned long long)table;
  unsigned long long r = 0;
  for (int i = 0; i < 8; ++i) r |= (unsigned long long)same[(a >> 8 * i) & 255] << 8 * i;
  *reinterpret_cast<volatile int*>(r) = C;
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
