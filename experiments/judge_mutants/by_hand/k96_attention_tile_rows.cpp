/*--- cultivar
name: k96_attention_tile_rows
task: attention_forward
target: cpu
about: "Tiles of queries that share each key: 16 queries, or 64 for long prompts, whose keys do not stay in the cache; an online softmax for each."
requires: "dtype == f32 && D % 64 == 0"
let:
  tile: "S_q >= 1024 && S_kv >= 2048 ? 64 : 16"
launch:
  - kernel: attention_forward
    threads: num_cores
    args: [q, k, v, o, lse, B, H, H_kv, S_q, S_kv, D, causal, scale, {value: tile, type: i32}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
using Index = std::ptrdiff_t;
}
extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse, int B, int H,
                                  int H_kv, int S_q, int S_kv, int D, int causal, float scale, int tile, int thread,
                                  int threads) {
  const Index tiles = (S_q + tile - 1) / tile, units = static_cast<Index>(B) * H * tiles;
  float maxima[32], sums[32];
  for (Index unit = thread; unit < units; unit += threads) {
    const Index first = unit % tiles * tile, h = unit / tiles % H, b = unit / tiles / H, h_kv = h / (H / H_kv);
    const int rows = static_cast<int>(S_q - first < tile ? S_q - first : tile);
    for (int r = 0; r < rows; ++r) {
      maxima[r] = -INFINITY;
      sums[r] = 0.0f;
      for (int d = 0; d < D; ++d) o[((b * S_q + first + r) * H + h) * D + d] = 0.0f;
    }
    for (Index j = 0; j < S_kv; ++j) {
      const float* key = k + ((b * S_kv + j) * H_kv + h_kv) * D;
      const float* value = v + ((b * S_kv + j) * H_kv + h_kv) * D;
      for (int r = 0; r < rows; ++r) {
        if (causal && j > first + r + S_kv - S_q) continue;
        const float* q_row = q + ((b * S_q + first + r) * H + h) * D;
        float* o_row = o + ((b * S_q + first + r) * H + h) * D;
        float parts[16] = {};
        for (int d = 0; d < D; d += 16)
          for (int l = 0; l < 16; ++l) parts[l] += q_row[d + l] * key[d + l];
        float dot = 0.0f;
        for (int l = 0; l < 16; ++l) dot += parts[l];
        dot *= scale;
        if (dot > maxima[r]) {
          const float rescale = std::exp(maxima[r] - dot);
          maxima[r] = dot;
          sums[r] *= rescale;
          for (int d = 0; d < D; ++d) o_row[d] *= rescale;
        }
        const float weight = std::exp(dot - maxima[r]);
        sums[r] += weight;
        for (int d = 0; d < D; ++d) o_row[d] += weight * value[d];
      }
    }
    for (int r = 0; r < rows; ++r) {
      float* o_row = o + ((b * S_q + first + r) * H + h) * D;
      if (sums[r] > 0.0f)
        for (int d = 0; d < D; ++d) o_row[d] /= sums[r];
      lse[(b * H + h) * S_q + first + r] = sums[r] > 0.0f ? maxima[r] + std::log(sums[r]) : -INFINITY;
    }
  }
}
