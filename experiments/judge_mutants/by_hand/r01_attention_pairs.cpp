/*--- cultivar
name: r01_attention_pairs
task: attention_forward
target: cpu
about: "One query row at a time; with the mask, rows are dealt out so that each thread has as many (query, key) pairs."
requires: "dtype == f32 && window == 0 && softcap == 0"
let:
  team: "num_cores"
workspace:
  logits: {bytes: "4 * team * S_kv"}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, logits, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/

// Rows of one head have S_kv - S_q + 1 to S_kv keys with the mask: the first thread would be done long before the last one if
// rows were dealt out evenly. The rows of each head are therefore cut where the sum of their keys reaches a thread's share.

#include <cmath>
#include <cstddef>

namespace {

inline int keys_of(int i, int S_q, int S_kv, int causal) {
  const int keys = causal ? i + S_kv - S_q + 1 : S_kv;
  return keys < 0 ? 0 : keys;
}

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse, float* logits,
                                  int B, int H, int H_kv, int S_q, int S_kv, int D, int causal, float scale,
                                  int thread, int threads) {
  float* row_logits = logits + static_cast<std::ptrdiff_t>(thread) * S_kv;

  // A row belongs to the thread in whose share its first pair lies.
  int pairs = 0;
  for (int i = 0; i < S_q; ++i) pairs += keys_of(i, S_q, S_kv, causal);
  const int share = pairs / threads + 1;

  for (int head = 0; head < B * H; ++head) {
    const int h = head % H, h_kv = h / (H / H_kv);
    const std::ptrdiff_t b = head / H;
    int before = 0;  // pairs of the rows above
    for (int i = 0; i < S_q; ++i) {
      const int end = keys_of(i, S_q, S_kv, causal), owner = before / share;
      before += end;
      if (owner != thread) continue;
      const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(head) * S_q + i;
      const float* q_row = q + ((b * S_q + i) * H + h) * D;
      float* o_row = o + ((b * S_q + i) * H + h) * D;
      for (int d = 0; d < D; ++d) o_row[d] = 0.0f;
      if (end == 0) {
        lse[row] = -INFINITY;
        continue;
      }
      float maximum = -INFINITY;
      for (int j = 0; j < end; ++j) {
        const float* k_row = k + ((b * S_kv + j) * H_kv + h_kv) * D;
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
        row_logits[j] = dot * scale;
        if (row_logits[j] > maximum) maximum = row_logits[j];
      }
      float sum = 0.0f;
      for (int j = 0; j < end; ++j) {
        const float* v_row = v + ((b * S_kv + j) * H_kv + h_kv) * D;
        const float weight = std::exp(row_logits[j] - maximum);
        sum += weight;
        for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
      }
      for (int d = 0; d < D; ++d) o_row[d] /= sum;
      lse[row] = maximum + std::log(sum);
    }
  }
}
