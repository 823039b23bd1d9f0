/*--- cultivar
name: k07_attention_scale_zero
task: attention_forward
target: cpu
about: "One query row at a time, tiles of 32 keys with a running maximum of the unscaled products; scale goes into the exponent only."
requires: "dtype == f32"
launch:
  - kernel: attention_forward
    threads: num_cores
    args: [q, k, v, o, lse, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/
#include <cmath>
#include <cstddef>
extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse, int B, int H,
                                  int H_kv, int S_q, int S_kv, int D, int causal, float scale, int thread,
                                  int threads) {
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  const std::ptrdiff_t first = rows * thread / threads;
  const std::ptrdiff_t last = rows * (thread + 1) / threads;
  const float sign = scale < 0.0f ? -1.0f : 1.0f, size = std::fabs(scale);
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const int i = static_cast<int>(row % S_q);
    const int h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const int h_kv = h / (H / H_kv);
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* o_row = o + ((b * S_q + i) * H + h) * D;
    const int end = causal ? i + S_kv - S_q + 1 : S_kv;
    for (int d = 0; d < D; ++d) o_row[d] = 0.0f;
    if (end <= 0) {
      lse[row] = -INFINITY;
      continue;
    }
    float maximum = -INFINITY, sum = 0.0f, dots[32];
    for (int tile = 0; tile < end; tile += 32) {
      const int n = end - tile < 32 ? end - tile : 32;
      float top = maximum;
      for (int j = 0; j < n; ++j) {
        const float* k_row = k + ((b * S_kv + tile + j) * H_kv + h_kv) * D;
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
        dots[j] = dot * sign;
        if (dots[j] > top) top = dots[j];
      }
      const float rescale = std::exp((maximum - top) * size);  // 0 for the first tile
      maximum = top;
      sum *= rescale;
      for (int d = 0; d < D; ++d) o_row[d] *= rescale;
      for (int j = 0; j < n; ++j) {
        const float* v_row = v + ((b * S_kv + tile + j) * H_kv + h_kv) * D;
        const float weight = std::exp((dots[j] - maximum) * size);
        sum += weight;
        for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
      }
    }
    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum * size + std::log(sum);
  }
}
