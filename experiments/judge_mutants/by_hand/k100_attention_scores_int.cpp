/*--- cultivar
name: k100_attention_scores_int
task: attention_forward
target: cpu
about: "Three kernels with all scores in between: products, softmax of each row, weighted values."
requires: "dtype == f32"
workspace:
  scores: {bytes: "4 * B * H * S_q * S_kv"}
launch:
  - kernel: products
    threads: num_cores
    args: [q, k, scores, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
  - kernel: softmax_of_rows
    threads: num_cores
    args: [scores, lse, B, H, S_q, S_kv, thread, threads]
  - kernel: values
    threads: num_cores
    args: [scores, v, o, B, H, H_kv, S_q, S_kv, D, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
using Index = std::ptrdiff_t;
// Rows of scores are in the order [B, H, S_q].
inline float* row_at(float* scores, unsigned row, unsigned S_kv) { return scores + row * S_kv; }
}  // namespace
extern "C" void products(const float* q, const float* k, float* scores, int B, int H, int H_kv, int S_q, int S_kv,
                         int D, int causal, float scale, int thread, int threads) {
  const int rows = B * H * S_q;
  for (int row = thread; row < rows; row += threads) {
    const Index i = row % S_q, h = row / S_q % H, b = row / S_q / H, h_kv = h / (H / H_kv);
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* out = row_at(scores, row, S_kv);
    for (int j = 0; j < S_kv; ++j) {
      if (causal && j > i + S_kv - S_q) {
        out[j] = -INFINITY;
        continue;
      }
      const float* key = k + ((b * S_kv + j) * H_kv + h_kv) * D;
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += q_row[d] * key[d];
      out[j] = dot * scale;
    }
  }
}
extern "C" void softmax_of_rows(float* scores, float* lse, int B, int H, int S_q, int S_kv, int thread, int threads) {
  const int rows = B * H * S_q;
  for (int row = thread; row < rows; row += threads) {
    float* s = row_at(scores, row, S_kv);
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < S_kv; ++j) top = s[j] > top ? s[j] : top;
    if (top == -INFINITY) {
      for (int j = 0; j < S_kv; ++j) s[j] = 0.0f;
      lse[row] = -INFINITY;
      continue;
    }
    for (int j = 0; j < S_kv; ++j) sum += s[j] = std::exp(s[j] - top);
    for (int j = 0; j < S_kv; ++j) s[j] /= sum;
    lse[row] = top + std::log(sum);
  }
}
extern "C" void values(float* scores, const float* v, float* o, int B, int H, int H_kv, int S_q, int S_kv, int D,
                       int thread, int threads) {
  const int rows = B * H * S_q;
  for (int row = thread; row < rows; row += threads) {
    const Index i = row % S_q, h = row / S_q % H, b = row / S_q / H, h_kv = h / (H / H_kv);
    float* out = o + ((b * S_q + i) * H + h) * D;
    const float* s = row_at(scores, row, S_kv);
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    for (int j = 0; j < S_kv; ++j) {
      const float* value = v + ((b * S_kv + j) * H_kv + h_kv) * D;
      for (int d = 0; d < D; ++d) out[d] += s[j] * value[d];
    }
  }
}
