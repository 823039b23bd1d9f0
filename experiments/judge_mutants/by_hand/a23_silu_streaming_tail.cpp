/*--- cultivar
name: a23_silu_streaming_tail
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

#include <immintrin.h>

#include <cmath>

extern "C" void silu_mul(const float* gate, const float* up, float* y, long long count, int thread,
                         int threads) {
  const auto one = [&](long long i) { y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i]; };
  const long long groups = count / 4;
  if (count * 4 <= (64 << 20)) {
    const long long last = count * (thread + 1) / threads;
    for (long long i = count * thread / threads; i < last; ++i) one(i);
    return;
  }
  // Larger than the caches: stored around them, four at a time.
  const long long last = groups * (thread + 1) / threads;
  for (long long g = groups * thread / threads; g < last; ++g) {
    float part[4];
    for (int l = 0; l < 4; ++l) {
      const long long i = 4 * g + l;
      part[l] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
    _mm_stream_ps(y + 4 * g, _mm_loadu_ps(part));
  }
  if (thread + 1 == threads) {
    switch (count % 4) {
      case 2: one(count - 2); [[fallthrough]];
      case 1: one(count - 1); break;
      default: break;
    }
  }
  _mm_sfence();
}
