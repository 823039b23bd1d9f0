/*--- cultivar
name: r09_attention_clamp
task: attention_forward
target: cpu
about: "One query row at a time; exponentials by a polynomial without branches, in the range in which the exponent fits."
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

#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

// e^z for z <= 0. The exponent of a float ends at 2^-126: e^-87 stands for what is smaller, which is nothing beside 1.
inline float exp_of(float z) {
  constexpr float kRounder = 12582912.0f;
  z = z < -87.0f ? -87.0f : z;
  const float shifted = z * 1.44269504f + kRounder;
  const float r = z * 1.44269504f - (shifted - kRounder);
  float p = 1.520197680e-05f;
  p = p * r + 1.546928867e-04f;
  p = p * r + 1.333392232e-03f;
  p = p * r + 9.618027263e-03f;
  p = p * r + 5.550410354e-02f;
  p = p * r + 2.402265120e-01f;
  p = p * r + 6.931471807e-01f;
  p = p * r + 1.0f;
  int bits, exponent;
  std::memcpy(&bits, &p, 4);
  std::memcpy(&exponent, &shifted, 4);
  bits += static_cast<int>(static_cast<unsigned>(exponent) << 23);
  std::memcpy(&p, &bits, 4);
  return p;
}

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse, float* logits,
                                  int B, int H, int H_kv, int S_q, int S_kv, int D, int causal, float scale,
                                  int thread, int threads) {
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
    const int end = causal ? i + S_kv - S_q + 1 : S_kv;

    for (int d = 0; d < D; ++d) o_row[d] = 0.0f;
    if (end <= 0) {
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
    for (int j = 0; j < end; ++j) row_logits[j] = exp_of(row_logits[j] - maximum);
    for (int j = 0; j < end; ++j) {
      const float* v_row = v + ((b * S_kv + j) * H_kv + h_kv) * D;
      const float weight = row_logits[j];
      sum += weight;
      for (int d = 0; d < D; ++d) o_row[d] += weight * v_row[d];
    }
    for (int d = 0; d < D; ++d) o_row[d] /= sum;
    lse[row] = maximum + std::log(sum);
  }
}
