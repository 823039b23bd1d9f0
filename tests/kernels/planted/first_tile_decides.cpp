/*--- cultivar
name: first_tile_decides
task: attention_forward
target: cpu
about: "The greatest logit of the first 256 keys is subtracted from all logits of a row; later keys do not raise it."
requires: "dtype == f32"
workspace:
  logits: {bytes: "4 * num_cores * 256"}
launch:
  - kernel: attention_forward
    threads: num_cores
    args: [q, k, v, o, lse, logits, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/

// Wrong where a key beyond the first 256 has a logit that is more than 88 above all of theirs: its weight is infinite.

#include <cmath>
#include <cstddef>

namespace {

constexpr int kTile = 256;

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* logits, int B, int H, int H_kv, int S_q, int S_kv, int D, int causal,
                                  float scale, int thread, int threads) {
  float* tile = logits + static_cast<std::ptrdiff_t>(thread) * kTile;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  for (std::ptrdiff_t row = thread; row < rows; row += threads) {
    const int i = static_cast<int>(row % S_q), h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const float* query = q + ((b * S_q + i) * H + h) * D;
    float* out = o + ((b * S_q + i) * H + h) * D;
    const int end = causal && i + S_kv - S_q + 1 < S_kv ? i + S_kv - S_q + 1 : S_kv;
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    if (end <= 0) {
      lse[row] = -INFINITY;
      continue;
    }
    float top = -INFINITY, sum = 0.0f;
    for (int first = 0; first < end; first += kTile) {
      const int count = end - first < kTile ? end - first : kTile;
      for (int j = 0; j < count; ++j) {
        const float* key = k + ((b * S_kv + first + j) * H_kv + h / (H / H_kv)) * D;
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += query[d] * key[d];
        tile[j] = dot * scale;
        if (first == 0 && tile[j] > top) top = tile[j];
      }
      for (int j = 0; j < count; ++j) {
        const float* value = v + ((b * S_kv + first + j) * H_kv + h / (H / H_kv)) * D;
        const float weight = std::exp(tile[j] - top);
        sum += weight;
        for (int d = 0; d < D; ++d) out[d] += weight * value[d];
      }
    }
    for (int d = 0; d < D; ++d) out[d] /= sum;
    lse[row] = top + std::log(sum);
  }
}
