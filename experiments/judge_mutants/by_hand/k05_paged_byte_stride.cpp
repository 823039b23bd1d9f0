/*--- cultivar
name: k05_paged_byte_stride
task: attention_paged
target: cpu
about: "One query row at a time; pages are addressed by their stride in bytes."
requires: "dtype == f32"
workspace:
  logits: {bytes: "4 * num_cores * M * PAGE"}
launch:
  - kernel: attention_paged
    threads: num_cores
    args: [q, k_pages, v_pages, page_table, lengths, o, lse, logits, B, H, H_kv, S_q, M, PAGE, D, causal, scale, thread, threads]
---*/

// The baseline. Rows are dealt out evenly over the threads; each thread keeps the logits of its row in its own part of
// the workspace.

#include <cmath>
#include <cstddef>

extern "C" void attention_paged(const float* q, const float* k_pages, const float* v_pages,
                                const int* page_table, const int* lengths, float* o, float* lse,
                                float* logits, int B, int H, int H_kv, int S_q, int M, int PAGE, int D,
                                int causal, float scale, int thread, int threads) {
  float* row_logits = logits + static_cast<std::ptrdiff_t>(thread) * M * PAGE;
  const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(B) * H * S_q;
  const std::ptrdiff_t first = rows * thread / threads;
  const std::ptrdiff_t last = rows * (thread + 1) / threads;

  for (std::ptrdiff_t row = first; row < last; ++row) {
    const int i = static_cast<int>(row % S_q);
    const int h = static_cast<int>(row / S_q % H);
    const std::ptrdiff_t b = row / S_q / H;
    const int h_kv = h / (H / H_kv), length = lengths[b];
    const int* pages = page_table + b * M;
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* o_row = o + ((b * S_q + i) * H + h) * D;
    // Strides in bytes, as a cache of pages is usually described.
    const unsigned key_bytes = static_cast<unsigned>(H_kv) * D * sizeof(float), page_bytes = PAGE * key_bytes,
                   head_bytes = static_cast<unsigned>(h_kv) * D * sizeof(float);
    const auto key_at = [&](const float* pool, int j) {
      const unsigned offset = static_cast<unsigned>(pages[j / PAGE]) * page_bytes + (j % PAGE) * key_bytes + head_bytes;
      return reinterpret_cast<const float*>(reinterpret_cast<const char*>(pool) + offset);
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
      const float* k_row = key_at(k_pages, j);
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += q_row[d] * k_row[d];
      row_logits[j] = dot * scale;
      if (row_logits[j] > maximum) maximum = row_logits[j];
    }

    float sum = 0.0f;
    for (int j = 0; j < visible; ++j) {
      const float* v_row = key_at(v_pages, j);
      const float weight = std::exp(row_logits[j] - maximum);
      sum += weight;
      for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
    }

    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum + std::log(sum);  // lse is [B, H, S_q], which is the order of the rows
  }
}
