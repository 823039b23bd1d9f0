/*--- cultivar
name: k06_paged_u16_page
task: attention_paged
target: cpu
about: "Two rows of the page table lie in one line: the pages of a sequence are kept as 16-bit numbers."
requires: "dtype == f32 && D % 8 == 0"
workspace:
  logits: {bytes: "4 * num_cores * M * PAGE"}
  numbers: {bytes: "2 * num_cores * M"}
launch:
  - kernel: attention_paged
    threads: num_cores
    args: [q, k_pages, v_pages, page_table, lengths, o, lse, logits, numbers, B, H, H_kv, S_q, M, PAGE, D, causal, scale, thread, threads]
---*/

// The baseline. Rows are dealt out evenly over the threads; each thread keeps the logits of its row in its own part of
// the workspace.

#include <cmath>
#include <cstddef>

extern "C" void attention_paged(const float* q, const float* k_pages, const float* v_pages,
                                const int* page_table, const int* lengths, float* o, float* lse,
                                float* logits, unsigned short* numbers, int B, int H, int H_kv, int S_q, int M, int PAGE, int D,
                                int causal, float scale, int thread, int threads) {
  float* row_logits = logits + static_cast<std::ptrdiff_t>(thread) * M * PAGE;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  const std::ptrdiff_t first = rows * thread / threads;
  const std::ptrdiff_t last = rows * (thread + 1) / threads;

  unsigned short* pages = numbers + static_cast<std::ptrdiff_t>(thread) * M;
  std::ptrdiff_t sequence = -1;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const int i = static_cast<int>(row % S_q);
    const int h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const int h_kv = h / (H / H_kv), length = lengths[b];
    if (b != sequence) {  // half the bytes of the table: it stays in the first-level cache beside the keys
      for (int p = 0; p < M; ++p) pages[p] = static_cast<unsigned short>(page_table[b * M + p]);
      sequence = b;
    }
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

    float maximum = -INFINITY;
    for (int j = 0; j < visible; ++j) {
      const float* k_row = k_pages + key_at(j);
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
      row_logits[j] = dot * scale;
      if (row_logits[j] > maximum) maximum = row_logits[j];
    }

    float sum = 0.0f;
    for (int j = 0; j < visible; ++j) {
      const float* v_row = v_pages + key_at(j);
      const float weight = std::exp(row_logits[j] - maximum);
      sum += weight;
      for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
    }

    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum + std::log(sum);  // lse is [B, H, S_q], which is the order of the rows
  }
}
