/*--- cultivar
name: k113_paged_width_switch
task: attention_paged
target: cpu
about: "Plain loops with the width of the heads as a constant for the widths of known models."
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

namespace {
// kD: elements of a head, or 0: any.
template <int kD>
void attend(const float* q, const float* k_pages, const float* v_pages,
                                const int* page_table, const int* lengths, float* o, float* lse,
                                float* logits, int B, int H, int H_kv, int S_q, int M, int PAGE, int given,
                                int causal, float scale, int thread, int threads) {
  const int D = kD > 0 ? kD : given;
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

}  // namespace

extern "C" void attention_paged(const float* q, const float* k_pages, const float* v_pages,
 const int* page_table, const int* lengths, float* o, float* lse,
 float* logits, int B, int H, int H_kv, int S_q, int M, int PAGE, int D,
 int causal, float scale, int thread, int threads) {
#define WIDTH(n) return attend<n>(q, k_pages, v_pages, page_table, lengths, o, lse, logits, B, H, H_kv, S_q, M, PAGE, D, causal, scale, thread, threads)
  switch (D) {
    case 32: WIDTH(32);
    case 40: WIDTH(40);
    case 48: WIDTH(48);
    case 64: WIDTH(64);
    case 72: WIDTH(72);
    case 80: WIDTH(80);
    case 96: WIDTH(96);
    case 104: WIDTH(104);
    case 112: WIDTH(112);
    case 120: WIDTH(112);
    case 128: WIDTH(128);
    case 144: WIDTH(144);
    case 160: WIDTH(160);
    case 192: WIDTH(192);
    case 224: WIDTH(224);
    case 256: WIDTH(256);
    default: WIDTH(0);
  }
}
