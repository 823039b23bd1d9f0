/*--- cultivar
name: a12_paged_split_stale
task: attention_paged
target: cpu
about: "One query row at a time in plain loops, key by key through the page table: all logits, their maximum, exponentials and sum, then the weighted values."
requires: "dtype == f32"
workspace:
  logits: {bytes: "4 * num_cores * M * PAGE"}
  all_parts: {bytes: "4 * num_cores * ceil_div(M * PAGE, 2048) * (D + 2)"}
launch:
  - kernel: attention_paged
    threads: num_cores
    args: [q, k_pages, v_pages, page_table, lengths, o, lse, logits, all_parts, B, H, H_kv, S_q, M, PAGE, D, causal, scale, thread, threads]
---*/

// The baseline. Rows are dealt out evenly over the threads; each thread keeps the logits of its row in its own part of
// the workspace.

#include <cmath>
#include <cstddef>

constexpr int kSplit = 2048;  // keys

extern "C" void attention_paged(const float* q, const float* k_pages, const float* v_pages,
                                const int* page_table, const int* lengths, float* o, float* lse,
                                float* logits, float* all_parts, int B, int H, int H_kv, int S_q, int M, int PAGE, int D,
                                int causal, float scale, int thread, int threads) {
  float* row_logits = logits + static_cast<std::ptrdiff_t>(thread) * M * PAGE;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  const std::ptrdiff_t first = rows * thread / threads;
  const std::ptrdiff_t last = rows * (thread + 1) / threads;

  const int splits = (M * PAGE + kSplit - 1) / kSplit;
  float* parts = all_parts + static_cast<std::ptrdiff_t>(thread) * splits * (D + 2);
  float* tops = parts + static_cast<std::ptrdiff_t>(splits) * D;
  float* sums = tops + splits;
  for (int split = 0; split < splits; ++split) tops[split] = -INFINITY;  // no keys yet

  for (std::ptrdiff_t row = first; row < last; ++row) {
    const int i = static_cast<int>(row % S_q);
    const int h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const int h_kv = h / (H / H_kv), length = lengths[b];
    const int* pages = page_table + b * M;
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* o_row = o + ((b * S_q + i) * H + h) * D;
    const auto key_at = [&](int j) {
      return ((static_cast<std::ptrdiff_t>(pages[j / PAGE]) * PAGE + j % PAGE) * H_kv + h_kv) * D;
    };

    int visible = length;  // with the mask a row sees the keys j <= i + length - S_q
    if (causal) visible = i + length - S_q + 1;
    for (int d = 0; d < D; ++d) o_row[d] = 0.0f;
    if (visible <= 0) {
      lse[row] = -INFINITY;
      continue;
    }

    // A split of kSplit keys at a time, each with its own maximum, sum and values; then they are merged.
    for (int split = 0; split < splits; ++split) {
      const int from = split * kSplit, to = from + kSplit < visible ? from + kSplit : visible;
      if (from >= to) break;
      float top = -INFINITY, sum = 0.0f;
      float* part = parts + static_cast<std::ptrdiff_t>(split) * D;
      for (int d = 0; d < D; ++d) part[d] = 0.0f;
      for (int j = from; j < to; ++j) {
        const float* k_row = k_pages + key_at(j);
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
        row_logits[j] = dot * scale;
        if (row_logits[j] > top) top = row_logits[j];
      }
      for (int j = from; j < to; ++j) {
        const float* v_row = v_pages + key_at(j);
        const float weight = std::exp(row_logits[j] - top);
        sum += weight;
        for (int d = 0; d < D; ++d) part[d] += weight * v_row[d];
      }
      tops[split] = top;
      sums[split] = sum;
    }
    float maximum = -INFINITY, sum = 0.0f;
    for (int split = 0; split < splits; ++split)
      if (tops[split] > maximum) maximum = tops[split];
    for (int split = 0; split < splits; ++split) {
      if (tops[split] == -INFINITY) continue;
      const float factor = std::exp(tops[split] - maximum);
      sum += factor * sums[split];
      const float* part = parts + static_cast<std::ptrdiff_t>(split) * D;
      for (int d = 0; d < D; ++d) o_row[d] += factor * part[d];
    }
    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum + std::log(sum);  // lse is [B, H, S_q], which is the order of the rows
  }
}
