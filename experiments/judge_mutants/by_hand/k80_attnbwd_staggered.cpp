/*--- cultivar
name: k80_attnbwd_staggered
task: attention_backward
target: cpu
about: "Queries are dealt out over the threads, P once for all three gradients; each thread sums dk and dv on its own and adds them at the end, starting at another place than the others."
requires: "dtype == f32"
launch:
  - kernel: clear
    args: [dk, dv, {value: "B * S_kv * H_kv * D", type: i64}, thread, threads]
  - kernel: gradients
    args: [q, k, v, o, lse, grad_o, dq, dk, dv, B, H, H_kv, S_q, S_kv, D, causal, scale, thread, threads]
---*/
#include <cmath>
#include <cstddef>
#include <vector>
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
extern "C" void clear(float* dk, float* dv, long long count, int thread, int threads) {
  for (long long i = count * thread / threads; i < count * (thread + 1) / threads; ++i) dk[i] = dv[i] = 0.0f;
}
extern "C" void gradients(const float* q, const float* k, const float* v, const float* o, const float* lse,
                          const float* grad, float* dq, float* dk, float* dv, int B, int H, int H_kv, int S_q,
                          int S_kv, int D, int causal, float scale, int thread, int threads) {
  const Index rows = static_cast<Index>(B) * S_q * H, group = H / H_kv,
              count = static_cast<Index>(B) * S_kv * H_kv * D;
  std::vector<float> own(2 * count, 0.0f);
  float *const own_k = own.data(), *const own_v = own_k + count;
  for (Index row = thread; row < rows; row += threads) {
    const Index h = row % H, i = row / H % S_q, b = row / H / S_q;
    const Index keys = causal ? (i + S_kv - S_q + 1 < S_kv ? i + S_kv - S_q + 1 : S_kv) : S_kv;
    const float* const g = grad + row * D;
    const float delta = dot(g, o + row * D, D), base = lse[(b * H + h) * S_q + i];
    float* const out = dq + row * D;
    for (int d = 0; d < D; ++d) out[d] = 0.0f;
    for (Index j = 0; j < keys; ++j) {
      const Index at = ((b * S_kv + j) * H_kv + h / group) * D;
      const float p = std::exp(dot(q + row * D, k + at, D) * scale - base);
      const float ds = p * (dot(g, v + at, D) - delta) * scale;
      for (int d = 0; d < D; ++d) {
        out[d] += ds * k[at + d];
        own_k[at + d] += ds * q[row * D + d];
        own_v[at + d] += p * g[d];
      }
    }
  }
  // Each thread begins in its own part, so that no two add to the same place at the same time.
  const Index begin = count * thread / threads;
  for (Index n = 0; n < count; ++n) {
    const Index at = n + begin < count ? n + begin : n + begin - count;
    dk[at] += own_k[at];
    dv[at] += own_v[at];
  }
}
