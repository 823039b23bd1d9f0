/*--- cultivar
name: attention_eigen
task: attention_forward
target: cpu
about: "What a C++ programmer writes with a library: S = Q K^T, row softmax, O = P V by Eigen, over blocks of rows, masked blocks skipped."
requires: "dtype == f32"
specialize: [D]
let:
  team: "num_cores"
  rows: "128"
workspace:
  logits: {bytes: "4 * team * rows * S_kv"}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, logits, B, H, H_kv, S_q, S_kv, causal, scale, thread, threads]
---*/

// A block is 128 query rows of one head: its logits against every key that one of them sees, kept whole in the
// workspace, then softmax row by row, then the product with the values. Keys go through the products in chunks whose
// packed form has a bound known to the compiler: so Eigen packs on the stack (at most 200 KiB), asks nobody for memory
// and keeps no table of cache sizes. It costs nothing: products without bounds, and blocks of 64, 256 and 512 rows,
// were as fast or slower on the machine where this was written.

#define EIGEN_NO_DEBUG
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_IO
#include <eigen3/Eigen/Core>
#include <cmath>

namespace {

constexpr int kRows = 128;
constexpr int kChunk = D <= 64 ? 256 : D <= 128 ? 128 : 64;  // keys

template <int kMaxRows, int kMaxColumns>
using Bounded = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor, kMaxRows, kMaxColumns>;
template <int kMaxRows, int kMaxColumns>
using Rows = Eigen::Map<Bounded<kMaxRows, kMaxColumns>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <int kMaxRows, int kMaxColumns>
using ConstRows = Eigen::Map<const Bounded<kMaxRows, kMaxColumns>, Eigen::Unaligned, Eigen::OuterStride<>>;
using Row = Eigen::Map<Eigen::ArrayXf>;

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* logits, int B, int H, int H_kv, int S_q, int S_kv, int causal,
                                  float scale, int thread, int threads) {
  float* s = logits + static_cast<Eigen::Index>(thread) * kRows * S_kv;
  const Eigen::Index q_stride = static_cast<Eigen::Index>(H) * D;
  const Eigen::Index kv_stride = static_cast<Eigen::Index>(H_kv) * D;
  const int blocks = (S_q + kRows - 1) / kRows;

  // Consecutive units take turns over the threads. The blocks of a causal head differ in work, so all heads' last
  // blocks come first, then all heads' last but one, and so on.
  for (int unit = thread; unit < B * H * blocks; unit += threads) {
    const int bh = causal ? unit % (B * H) : unit / blocks;
    const int block = causal ? blocks - 1 - unit / (B * H) : unit % blocks;
    const Eigen::Index b = bh / H;
    const int h = bh % H;
    const int h_kv = h / (H / H_kv);
    const int first = block * kRows;
    const int rows = std::min(kRows, S_q - first);
    const auto keys_seen = [&](int row) {
      return causal ? std::clamp(first + row + S_kv - S_q + 1, 0, S_kv) : S_kv;
    };
    const int keys = keys_seen(rows - 1);

    const float* k_head = k + (b * S_kv * H_kv + h_kv) * D;
    const float* v_head = v + (b * S_kv * H_kv + h_kv) * D;
    const ConstRows<kRows, D> q_rows(q + ((b * S_q + first) * H + h) * D, rows, D,
                                     Eigen::OuterStride<>(q_stride));
    Rows<kRows, D> o_rows(o + ((b * S_q + first) * H + h) * D, rows, D, Eigen::OuterStride<>(q_stride));

    for (int key = 0; key < keys; key += kChunk) {
      const int count = std::min(kChunk, keys - key);
      const ConstRows<kChunk, D> k_rows(k_head + key * kv_stride, count, D, Eigen::OuterStride<>(kv_stride));
      Rows<kRows, kChunk>(s + key, rows, count, Eigen::OuterStride<>(S_kv)).noalias() =
          q_rows * k_rows.transpose();
    }

    float sums[kRows];
    for (int i = 0; i < rows; ++i) {
      const int seen = keys_seen(i);
      Row row(s + static_cast<Eigen::Index>(i) * S_kv, seen);
      float& row_lse = lse[static_cast<Eigen::Index>(bh) * S_q + first + i];
      if (seen == 0) {
        row_lse = -INFINITY;
        sums[i] = 1.0f;
      } else {
        row *= scale;
        const float maximum = row.maxCoeff();
        row = (row - maximum).exp();
        sums[i] = row.sum();
        row_lse = maximum + std::log(sums[i]);
      }
      Row(row.data() + seen, keys - seen).setZero();
    }

    o_rows.setZero();
    for (int key = 0; key < keys; key += kChunk) {
      const int count = std::min(kChunk, keys - key);
      const ConstRows<kChunk, D> v_rows(v_head + key * kv_stride, count, D, Eigen::OuterStride<>(kv_stride));
      o_rows.noalias() += ConstRows<kRows, kChunk>(s + key, rows, count, Eigen::OuterStride<>(S_kv)) * v_rows;
    }
    for (int i = 0; i < rows; ++i) o_rows.row(i) *= 1.0f / sums[i];
  }
}
