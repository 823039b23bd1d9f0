/*--- cultivar
name: attention_naive
task: attention_forward
target: cpu
about: "One query row at a time in plain loops: all logits, their maximum, exponentials and sum, then the weighted values."
requires: "dtype == f32"
let:
  team: "num_cores"
  span: "min(window, S_q + S_kv)"  # a wider window hides nothing
workspace:
  logits: {bytes: "4 * team * S_kv"}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, logits, B, H, H_kv, S_q, S_kv, D, causal, span, scale, softcap, thread, threads]
---*/

// The baseline. Rows are dealt out evenly over the threads; each thread keeps the logits of its row in its
// own S_kv floats of the workspace. Any shape is taken.

#include <cmath>
#include <cstddef>

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* logits, int B, int H, int H_kv, int S_q, int S_kv, int D, int causal,
                                  int window, float scale, float softcap, int thread, int threads) {
  float* row_logits = logits + static_cast<std::ptrdiff_t>(thread) * S_kv;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  const std::ptrdiff_t first = rows * thread / threads;
  const std::ptrdiff_t last = rows * (thread + 1) / threads;

  for (std::ptrdiff_t row = first; row < last; ++row) {
    const int i = static_cast<int>(row % S_q);
    const int h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const int h_kv = h / (H / H_kv);
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* o_row = o + ((b * S_q + i) * H + h) * D;

    const int own = i + S_kv - S_q;  // a causal row sees the keys j <= own
    int first_key = 0, end = S_kv;
    if (window > 0 && own - window + 1 > 0) first_key = own - window + 1;
    if (causal)
      end = own + 1;
    else if (window > 0 && window < S_kv - own)
      end = own + window;
    if (end > S_kv) end = S_kv;

    for (int d = 0; d < D; ++d) o_row[d] = 0.0f;
    if (end <= first_key) {
      lse[row] = -INFINITY;
      continue;
    }

    float maximum = -INFINITY;
    for (int j = first_key; j < end; ++j) {
      const float* k_row = k + ((b * S_kv + j) * H_kv + h_kv) * D;
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
      row_logits[j] = dot * scale;
      if (softcap > 0.0f) row_logits[j] = softcap * std::tanh(row_logits[j] / softcap);
      if (row_logits[j] > maximum) maximum = row_logits[j];
    }

    float sum = 0.0f;
    for (int j = first_key; j < end; ++j) {
      const float* v_row = v + ((b * S_kv + j) * H_kv + h_kv) * D;
      const float weight = std::exp(row_logits[j] - maximum);
      sum += weight;
      for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
    }

    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum + std::log(sum);  // lse is [B, H, S_q], which is the order of the rows
  }
}
