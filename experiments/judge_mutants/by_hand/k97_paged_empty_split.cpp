/*--- cultivar
name: k97_paged_empty_split
task: attention_paged
target: cpu
about: "Keys of a row are split over eight units where there may be 8192 and more, so that few sequences keep all cores busy; a second kernel combines the parts."
requires: "dtype == f32 && D % 64 == 0"
let:
  splits: "M * PAGE >= 8192 ? 8 : 1"
workspace:
  parts: {bytes: "4 * B * S_q * H * splits * (D + 2)"}
launch:
  - kernel: parts_of_keys
    threads: num_cores
    args: [q, k_pages, v_pages, page_table, lengths, parts, B, H, H_kv, S_q, M, PAGE, D, causal, scale, {value: splits, type: i32}, thread, threads]
  - kernel: combine
    threads: num_cores
    args: [parts, lengths, o, lse, B, H, S_q, D, causal, {value: splits, type: i32}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
using Index = std::ptrdiff_t;
int visible_of(int length, int i, int S_q, int causal) { return causal ? i + length - S_q + 1 : length; }
}  // namespace
// A part: D weighted sums, the maximum, the sum of the weights.
extern "C" void parts_of_keys(const float* q, const float* k_pages, const float* v_pages, const int* page_table,
                              const int* lengths, float* parts, int B, int H, int H_kv, int S_q, int M, int PAGE,
                              int D, int causal, float scale, int splits, int thread, int threads) {
  const Index units = static_cast<Index>(B) * H * S_q * splits;
  const int share = (M * PAGE + splits - 1) / splits;
  for (Index unit = thread; unit < units; unit += threads) {
    const int split = static_cast<int>(unit % splits);
    const Index row = unit / splits, b = row / S_q / H;
    const int i = static_cast<int>(row % S_q), h = static_cast<int>(row / S_q % H), h_kv = h / (H / H_kv);
    const int visible = visible_of(lengths[b], i, S_q, causal);
    const int first = split * share, last = first + share < visible ? first + share : visible;
    if (first >= last) continue;  // the sequence is shorter
    const int* pages = page_table + b * M;
    const float* q_row = q + ((b * S_q + i) * H + h) * D;
    float* part = parts + unit * (D + 2);
    float top = -INFINITY, sum = 0.0f;
    for (int d = 0; d < D; ++d) part[d] = 0.0f;
    for (int j = first; j < last; ++j) {
      const Index at = ((static_cast<Index>(pages[j / PAGE]) * PAGE + j % PAGE) * H_kv + h_kv) * D;
      float lanes[16] = {};
      for (int d = 0; d < D; d += 16)
        for (int l = 0; l < 16; ++l) lanes[l] += q_row[d + l] * k_pages[at + d + l];
      float dot = 0.0f;
      for (int l = 0; l < 16; ++l) dot += lanes[l];
      dot *= scale;
      if (dot > top) {
        const float rescale = std::exp(top - dot);
        top = dot;
        sum *= rescale;
        for (int d = 0; d < D; ++d) part[d] *= rescale;
      }
      const float weight = std::exp(dot - top);
      sum += weight;
      for (int d = 0; d < D; ++d) part[d] += weight * v_pages[at + d];
    }
    part[D] = top;
    part[D + 1] = sum;
  }
}
extern "C" void combine(const float* parts, const int* lengths, float* o, float* lse, int B, int H, int S_q, int D,
                        int causal, int splits, int thread, int threads) {
  const Index rows = static_cast<Index>(B) * H * S_q;
  for (Index row = thread; row < rows; row += threads) {
    const Index i = row % S_q, h = row / S_q % H, b = row / S_q / H;
    float* out = o + ((b * S_q + i) * H + h) * D;
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    if (visible_of(lengths[b], static_cast<int>(i), S_q, causal) <= 0) {
      lse[row] = -INFINITY;
      continue;
    }
    const float* of_row = parts + row * splits * (D + 2);
    float top = -INFINITY, sum = 0.0f;
    for (int s = 0; s < splits; ++s) top = of_row[s * (D + 2) + D] > top ? of_row[s * (D + 2) + D] : top;
    for (int s = 0; s < splits; ++s) {
      const float* part = of_row + s * (D + 2);
      const float weight = std::exp(part[D] - top);
      sum += weight * part[D + 1];
      for (int d = 0; d < D; ++d) out[d] += weight * part[d];
    }
    for (int d = 0; d < D; ++d) out[d] /= sum;
    lse[row] = top + std::log(sum);
  }
}
