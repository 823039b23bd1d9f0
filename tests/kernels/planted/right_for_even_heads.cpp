/*--- cultivar
name: right_for_even_heads
task: attention_forward
target: cpu
about: "Right if B * H is even or S_kv is at most 4097; gives 0 elsewhere, as a path for pairs of heads may."
requires: "dtype == f32"
workspace:
  logits: {bytes: "4 * num_cores * S_kv"}
launch:
  - kernel: attention_forward
    threads: num_cores
    args: [q, k, v, o, lse, logits, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/

// Wrong where an odd number of heads attends to more than 4,097 keys.

#include <cmath>
#include <cstddef>

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* logits, int B, int H, int H_kv, int S_q, int S_kv, int D, int causal,
                                  float scale, int thread, int threads) {
  float* weights = logits + static_cast<std::ptrdiff_t>(thread) * S_kv;
  const bool pairs = B * H % 2 == 0 || S_kv <= 4097;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  for (std::ptrdiff_t row = thread; row < rows; row += threads) {
    const int i = static_cast<int>(row % S_q), h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const float* query = q + ((b * S_q + i) * H + h) * D;
    float* out = o + ((b * S_q + i) * H + h) * D;
    const int end = causal && i + S_kv - S_q + 1 < S_kv ? i + S_kv - S_q + 1 : S_kv;
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    if (end <= 0 || !pairs) {
      lse[row] = end <= 0 ? -INFINITY : 0.0f;
      continue;
    }
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < end; ++j) {
      const float* key = k + ((b * S_kv + j) * H_kv + h / (H / H_kv)) * D;
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += query[d] * key[d];
      weights[j] = dot * scale;
      if (weights[j] > top) top = weights[j];
    }
    for (int j = 0; j < end; ++j) {
      const float* value = v + ((b * S_kv + j) * H_kv + h / (H / H_kv)) * D;
      const float weight = std::exp(weights[j] - top);
      sum += weight;
      for (int d = 0; d < D; ++d) out[d] += weight * value[d];
    }
    for (int d = 0; d < D; ++d) out[d] /= sum;
    lse[row] = top + std::log(sum);
  }
}
