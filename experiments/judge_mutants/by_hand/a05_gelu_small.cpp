/*--- cultivar
name: a05_gelu_small
task: gelu
target: cpu
about: "One loop over the elements, with std::erf or std::tanh."
requires: "dtype == f32"
tunables:
  CORES_PER_THREAD: {values: [1, 2], default: 1}
launch:
  - kernel: gelu
    threads: "ceil_div(num_cores, CORES_PER_THREAD)"
    args: [x, y, tanh_form, {value: "R * C", type: i64}, thread, threads]
---*/

// The baseline: elements are dealt out evenly over the threads.

#include <cmath>

extern "C" void gelu(const float* x, float* y, int tanh_form, long long count, int thread, int threads) {
  const long long last = count * (thread + 1) / threads;
  for (long long i = count * thread / threads; i < last; ++i) {
    const float v = x[i];
    if (std::fabs(v) < 1e-4f) {  // linear there
      y[i] = 0.5f * v;
      continue;
    }
    const float inner =
        tanh_form ? std::tanh(0.797884561f * (v + 0.044715f * v * v * v)) : std::erf(v * 0.707106781f);
    y[i] = 0.5f * v * (1.0f + inner);
  }
}
