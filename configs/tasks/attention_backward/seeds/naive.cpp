/*--- cultivar
name: attention_backward_naive
task: attention_backward
target: cpu
about: "Plain loops: a row of dq at a time, then a row of dk and dv at a time; P and DO V^T are computed for both."
requires: "dtype == f32"
launch:
  - kernel: gradients_of_queries
    args: [q, k, v, o, lse, grad_o, dq, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
  - kernel: gradients_of_keys
    args: [q, k, v, o, lse, grad_o, dk, dv, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/

// The baseline. Any shape is taken.

#include <cmath>
#include <cstddef>

namespace {

using Index = std::ptrdiff_t;

float dot(const float* a, const float* b, int D) {
  float sums[8] = {};
  int d = 0;
  for (; d + 8 <= D; d += 8)
    for (int l = 0; l < 8; ++l) sums[l] += a[d + l] * b[d + l];
  for (; d < D; ++d) sums[0] += a[d] * b[d];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

extern "C" void gradients_of_queries(const float* q, const float* k, const float* v, const float* o, const float* lse,
                                     const float* grad, float* dq, int B, int H, int H_kv, int S_q, int S_kv, int D,
                                     int causal, float scale, int thread, int threads) {
  const Index rows = static_cast<Index>(B) * S_q * H, group = H / H_kv;
  for (Index row = thread; row < rows; row += threads) {
    const Index h = row % H, i = row / H % S_q, b = row / H / S_q;
    const Index keys = causal ? (i + S_kv - S_q + 1 < S_kv ? i + S_kv - S_q + 1 : S_kv) : S_kv;
    const float delta = dot(grad + row * D, o + row * D, D), base = lse[(b * H + h) * S_q + i];
    float* const out = dq + row * D;
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    for (Index j = 0; j < keys; ++j) {
      const Index at = ((b * S_kv + j) * H_kv + h / group) * D;
      const float p = std::exp(dot(q + row * D, k + at, D) * scale - base);
      const float ds = p * (dot(grad + row * D, v + at, D) - delta) * scale;
      for (int d = 0; d < D; ++d) out[d] += ds * k[at + d];
    }
  }
}

extern "C" void gradients_of_keys(const float* q, const float* k, const float* v, const float* o, const float* lse,
                                  const float* grad, float* dk, float* dv, int B, int H, int H_kv, int S_q, int S_kv,
                                  int D, int causal, float scale, int thread, int threads) {
  const Index rows = static_cast<Index>(B) * S_kv * H_kv, group = H / H_kv;
  for (Index row = thread; row < rows; row += threads) {
    const Index hk = row % H_kv, j = row / H_kv % S_kv, b = row / H_kv / S_kv;
    const Index first = causal && j - S_kv + S_q > 0 ? j - S_kv + S_q : 0;
    float *const key_out = dk + row * D, *const value_out = dv + row * D;
    for (int d = 0; d < D; ++d) key_out[d] = value_out[d] = 0.0f;
    for (Index h = hk * group; h < (hk + 1) * group; ++h)
      for (Index i = first; i < S_q; ++i) {
        const Index at = ((b * S_q + i) * H + h) * D;
        const float p = std::exp(dot(q + at, k + row * D, D) * scale - lse[(b * H + h) * S_q + i]);
        const float ds = p * (dot(grad + at, v + row * D, D) - dot(grad + at, o + at, D)) * scale;
        for (int d = 0; d < D; ++d) {
          key_out[d] += ds * q[at + d];
          value_out[d] += p * grad[at + d];
        }
      }
  }
}
