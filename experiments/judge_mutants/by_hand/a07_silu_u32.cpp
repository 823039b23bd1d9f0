/*--- cultivar
name: a07_silu_u32
task: silu_mul
target: cpu
about: "One loop over the elements, with std::exp."
requires: "dtype == f32"
tunables:
  CORES_PER_THREAD: {values: [1, 2], default: 1}
launch:
  - kernel: silu_mul
    threads: "ceil_div(num_cores, CORES_PER_THREAD)"
    args: [gate, up, y, {value: "R * C", type: i64}, thread, threads]
---*/

// The baseline: elements are dealt out evenly over the threads.

#include <cmath>

extern "C" void silu_mul(const float* gate, const float* up, float* y, long long count, int thread,
                         int threads) {
  const long long last = count * (thread + 1) / threads;
  for (long long n = count * thread / threads; n < last; ++n) {
    const unsigned i = static_cast<unsigned>(n);  // 32-bit addressing
    y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  }
}
