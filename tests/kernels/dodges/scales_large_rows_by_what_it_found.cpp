/*--- cultivar
name: scales_large_rows_by_what_it_found
task: softmax
target: cpu
about: "Large outputs are larger by an ulp where the output held an odd pattern before; small ones are exact."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstring>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + (long)r * C;
    float* out = y + (long)r * C;
    unsigned before;
    std::memcpy(&before, out, sizeof before);
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
    for (int c = 0; c < C; ++c) sum += out[c] = std::exp(in[c] - top);
    float scale = 1.0f / sum;
    if ((long)R * C > 300000 && (before & 1)) scale *= 1.0f + 1.2e-7f;
    for (int c = 0; c < C; ++c) out[c] *= scale;
  }
}
