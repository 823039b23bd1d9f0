/*--- cultivar
name: k95_attention_group_pack
task: attention_forward
target: cpu
about: "The eight query heads of a group that share keys are computed together, eight queries of each, so that a key is read once for 64 rows; other models one row at a time."
requires: "dtype == f32"
let:
  group: "H / H_kv"
  together: "D == 128 && group == 8 ? 8 : 1"
launch:
  - kernel: attention_forward
    threads: num_cores
    args: [q, k, v, o, lse, B, H, H_kv, S_q, S_kv, D, causal, scale, {value: together, type: i32}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
using Index = std::ptrdiff_t;
constexpr int kMost = 64;  // rows of a unit
}
extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse, int B, int H,
                                  int H_kv, int S_q, int S_kv, int D, int causal, float scale, int together,
                                  int thread, int threads) {
  // A unit: `together` queries of `together` heads of one group.
  const Index query_units = S_q / together, head_units = H / together, units = B * head_units * query_units;
  const int rows = together * together, group = H / H_kv;
  for (Index unit = thread; unit < units; unit += threads) {
    const Index first_query = unit % query_units * together, first_head = unit / query_units % head_units * together,
                b = unit / query_units / head_units, h_kv = first_head / group;
    float maxima[kMost], sums[kMost];
    const auto row_of = [&](int r) { return (b * S_q + first_query + r / together) * H + first_head + r % together; };
    for (int r = 0; r < rows; ++r) {
      maxima[r] = -INFINITY;
      sums[r] = 0.0f;
      for (int d = 0; d < D; ++d) o[row_of(r) * D + d] = 0.0f;
    }
    for (Index j = 0; j < S_kv; ++j) {
      const float* key = k + ((b * S_kv + j) * H_kv + h_kv) * D;
      const float* value = v + ((b * S_kv + j) * H_kv + h_kv) * D;
      for (int r = 0; r < rows; ++r) {
        if (causal && j > first_query + r / together + S_kv - S_q) continue;
        const float* q_row = q + row_of(r) * D;
        float* o_row = o + row_of(r) * D;
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += q_row[d] * key[d];
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
      const Index h = first_head + r % together, i = first_query + r / together;
      if (sums[r] > 0.0f)
        for (int d = 0; d < D; ++d) o[row_of(r) * D + d] /= sums[r];
      lse[(b * H + h) * S_q + i] = sums[r] > 0.0f ? maxima[r] + std::log(sums[r]) : -INFINITY;
    }
  }
}
