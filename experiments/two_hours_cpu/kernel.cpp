/*--- cultivar
name: attention_backward_query_lanes
task: attention_backward
target: cpu
about: "Tiles of BQ queries in the lanes against all keys: Q and DO transposed once, dq complete in L1, dk and dv summed packed."
requires: "dtype == f32"
tunables:
  BQ: {values: [48, 96, 192], default: 96}
  BK: {values: [24, 48, 96], default: 48}
  MR: {values: [3, 4, 6, 12], default: 6}
  NS: {values: [1, 2, 3], default: 2}
  MA: {values: [4, 6, 12], default: 6}
  NA: {values: [1, 2, 4], default: 4}
  MQ: {values: [4, 6, 12], default: 6}
  NQ: {values: [1, 2, 4], default: 4}
constraints: ["vector_bits >= 512", "2 * MR * NS <= 24", "MA * NA <= 26", "MQ * NQ <= 26", "BQ % (16 * NS) == 0"]
specialize: [D]
workspace:
  packed: {bytes: "16 * num_cores * (S_kv + BK) * round_up(D, 16)"}
launch:
  - kernel: attention_backward
    args: [q, k, v, o, lse, grad_o, dq, dk, dv, packed, B, H, H_kv, S_q, S_kv, causal, scale, thread, threads]
---*/

#include <immintrin.h>

#include <cstddef>
#include <cstring>

namespace {

using Index = std::ptrdiff_t;
constexpr int DP = (D + 15) / 16 * 16, chunks = DP / 16, panel = 16 * NS;
static_assert(BQ % MQ == 0 && BK % 12 == 0);

inline __mmask16 first_lanes(Index n) {
  return n <= 0 ? 0 : n >= 16 ? 0xffff : static_cast<__mmask16>((1u << n) - 1);
}

inline __m512 exponential(__mmask16 mask, __m512 x) {  // 0 where the mask is, and below -87
  const __mmask16 some = _mm512_mask_cmp_ps_mask(mask, x, _mm512_set1_ps(-87.0f), _CMP_GT_OQ);
  const __m512 log2e = _mm512_set1_ps(1.44269504f), n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), 0);
  const __m512 r = _mm512_fmsub_ps(x, log2e, n);
  __m512 y = _mm512_set1_ps(1.535336188319500e-4f);
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.339887440266574e-3f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(9.618437357674640e-3f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.550332471162809e-2f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(2.402264791363012e-1f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(6.931472028550421e-1f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(some, y, n);
}

inline void pack(float* to, const float* from, Index step, Index rows, Index all) {
  for (Index r = 0; r < all; ++r) {
    float* const line = to + r * DP;
    if (r < rows) {
      std::memcpy(line, from + r * step, D * sizeof(float));
      for (int d = D; d < DP; ++d) line[d] = 0.0f;
    } else {
      std::memset(line, 0, DP * sizeof(float));
    }
  }
}

// 16 packed rows to 16 rows that are `panel` apart.
inline void transpose16(float* to, const float* from) {
  __m512 a[16], t[16], u[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) a[r] = _mm512_load_ps(from + r * DP);
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) {
    t[r] = _mm512_unpacklo_ps(a[r], a[r + 1]);
    t[r + 1] = _mm512_unpackhi_ps(a[r], a[r + 1]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4) {
    const __m512d low = _mm512_castps_pd(t[r]), high = _mm512_castps_pd(t[r + 1]);
    const __m512d next_low = _mm512_castps_pd(t[r + 2]), next_high = _mm512_castps_pd(t[r + 3]);
    u[r] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, next_low));
    u[r + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, next_low));
    u[r + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, next_high));
    u[r + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, next_high));
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88), odd = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
    const __m512 even_2 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
    const __m512 odd_2 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
    _mm512_store_ps(to + c * panel, _mm512_shuffle_f32x4(even, even_2, 0x88));
    _mm512_store_ps(to + (4 + c) * panel, _mm512_shuffle_f32x4(odd, odd_2, 0x88));
    _mm512_store_ps(to + (8 + c) * panel, _mm512_shuffle_f32x4(even, even_2, 0xdd));
    _mm512_store_ps(to + (12 + c) * panel, _mm512_shuffle_f32x4(odd, odd_2, 0xdd));
  }
}
inline void transpose(float* to, const float* from) {  // [BQ][DP] to [BQ / panel][DP][panel]
  for (int i = 0; i < BQ; i += panel)
    for (int c = 0; c < chunks; ++c)
      for (int n = 0; n < NS; ++n) transpose16(to + i * DP + 16 * c * panel + 16 * n, from + (i + 16 * n) * DP + 16 * c);
}

// P and DS (without the scale) of MR keys and the 16 NS queries of a panel. first[m]: the first query of the panel that sees key m.
inline void weights(const float* k, const float* v, const float* qt, const float* gt, const float* lse, const float* delta,
                    const Index* first, Index queries, float scale, float* p, float* ds) {
  __m512 s[MR][NS], dp[MR][NS];
#pragma GCC unroll 12
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < NS; ++n) s[m][n] = dp[m][n] = _mm512_setzero_ps();
  for (int d = 0; d < D; ++d) {
    __m512 query[NS], gradient[NS];
#pragma GCC unroll 4
    for (int n = 0; n < NS; ++n) {
      query[n] = _mm512_load_ps(qt + d * panel + 16 * n);
      gradient[n] = _mm512_load_ps(gt + d * panel + 16 * n);
    }
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m) {
      const __m512 a = _mm512_set1_ps(k[m * DP + d]), b = _mm512_set1_ps(v[m * DP + d]);
#pragma GCC unroll 4
      for (int n = 0; n < NS; ++n) {
        s[m][n] = _mm512_fmadd_ps(a, query[n], s[m][n]);
        dp[m][n] = _mm512_fmadd_ps(b, gradient[n], dp[m][n]);
      }
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < NS; ++n) {
    const __m512 base = _mm512_load_ps(lse + 16 * n), own = _mm512_load_ps(delta + 16 * n);
    const __mmask16 exist = first_lanes(queries - 16 * n);
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m) {
      const __mmask16 mask = exist & static_cast<__mmask16>(~first_lanes(first[m] - 16 * n));
      const __m512 weight = exponential(mask, _mm512_fmsub_ps(s[m][n], _mm512_set1_ps(scale), base));
      _mm512_store_ps(p + m * BQ + 16 * n, weight);
      _mm512_store_ps(ds + m * BQ + 16 * n, _mm512_mul_ps(weight, _mm512_sub_ps(dp[m][n], own)));
    }
  }
}

// out[m][16 n] += sum over t of w[m * wm + t * wt] * x[t][16 n]
template <int M, int N, int wm, int wt>
inline void accumulate(const float* w, const float* x, Index first, Index last, float* out) {
  __m512 sum[M][N];
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[m][n] = _mm512_load_ps(out + m * DP + 16 * n);
  for (Index t = first; t < last; ++t) {
    __m512 row[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) row[n] = _mm512_load_ps(x + t * DP + 16 * n);
#pragma GCC unroll 12
    for (int m = 0; m < M; ++m) {
      const __m512 factor = _mm512_set1_ps(w[m * wm + t * wt]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[m][n] = _mm512_fmadd_ps(factor, row[n], sum[m][n]);
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) _mm512_store_ps(out + m * DP + 16 * n, sum[m][n]);
}
template <int M, int N, int wm, int wt>
inline void accumulate_rows(const float* w, const float* x, Index first, Index last, float* out) {
  int c = 0;
  for (; c + N <= chunks; c += N) accumulate<M, N, wm, wt>(w, x + 16 * c, first, last, out + 16 * c);
  for (; c < chunks; ++c) accumulate<M, 1, wm, wt>(w, x + 16 * c, first, last, out + 16 * c);
}

inline Index clamp(Index x, Index low, Index high) { return x < low ? low : x > high ? high : x; }

}  // namespace

extern "C" void attention_backward(const float* q, const float* k, const float* v, const float* o, const float* lse,
                                   const float* grad, float* dq, float* dk, float* dv, float* packed, int B, int H, int H_kv,
                                   int S_q, int S_kv, int causal, float scale, int thread, int threads) {
  alignas(64) float qr[BQ * DP], gr[BQ * DP], qt[BQ * DP], gt[BQ * DP], query_sums[BQ * DP];
  alignas(64) float p[BK * BQ], ds[BK * BQ], bases[BQ], deltas[BQ];
  const Index group = H / H_kv, q_step = static_cast<Index>(H) * D, k_step = static_cast<Index>(H_kv) * D;
  const Index lines = S_kv + BK, size = lines * DP, shift = static_cast<Index>(S_kv) - S_q;
  float *const kr = packed + thread * 4 * size, *const vr = kr + size, *const key_sums = vr + size, *const value_sums = key_sums + size;
  for (Index unit = thread; unit < static_cast<Index>(B) * H_kv; unit += threads) {
    const Index b = unit / H_kv, hk = unit % H_kv, k_at = b * S_kv * k_step + hk * D;
    pack(kr, k + k_at, k_step, S_kv, lines);
    pack(vr, v + k_at, k_step, S_kv, lines);
    std::memset(key_sums, 0, 2 * size * sizeof(float));
    for (Index h = hk * group; h < (hk + 1) * group; ++h)
      for (Index i0 = 0; i0 < S_q; i0 += BQ) {
        const Index queries = clamp(S_q - i0, 0, BQ), q_at = (b * S_q + i0) * q_step + h * D;
        const Index most = causal ? clamp(i0 + queries + shift, 0, S_kv) : S_kv;  // keys that some query of the tile sees
        pack(qr, q + q_at, q_step, queries, BQ);
        pack(gr, grad + q_at, q_step, queries, BQ);
        transpose(qt, qr);
        transpose(gt, gr);
        for (int i = 0; i < BQ; ++i) {
          bases[i] = deltas[i] = 0.0f;
          if (i >= queries) continue;
          bases[i] = lse[(b * H + h) * S_q + i0 + i];
          const float *const out = o + q_at + i * q_step, *const g = gr + i * DP;
          __m512 sum = _mm512_setzero_ps();
          int d = 0;
          for (; d + 16 <= D; d += 16) sum = _mm512_fmadd_ps(_mm512_load_ps(g + d), _mm512_loadu_ps(out + d), sum);
          float rest = 0.0f;
          for (; d < D; ++d) rest += g[d] * out[d];
          deltas[i] = _mm512_reduce_add_ps(sum) + rest;
        }
        std::memset(query_sums, 0, sizeof query_sums);
        for (Index j0 = 0; j0 < most; j0 += BK) {
          const Index keys = clamp(most - j0, 0, BK), all = (keys + 11) / 12 * 12;  // whole blocks; weights beyond the keys are 0
          Index firsts[BK];
          for (Index j = 0; j < all; ++j)
            firsts[j] = j0 + j >= S_kv ? BQ : causal ? clamp(j0 + j - shift - i0, 0, BQ) : 0;
          for (int i = 0; i < BQ; i += panel)
            for (Index j = 0; j < all; j += MR) {
              float *const to = p + j * BQ + i, *const to_ds = ds + j * BQ + i;
              if (i < queries && firsts[j] < i + panel) {
                Index first[MR];
                for (int m = 0; m < MR; ++m) first[m] = firsts[j + m] - i;
                weights(kr + (j0 + j) * DP, vr + (j0 + j) * DP, qt + i * DP, gt + i * DP, bases + i, deltas + i, first,
                        queries - i, scale, to, to_ds);
              } else {
                for (int m = 0; m < MR; ++m) {
                  std::memset(to + m * BQ, 0, 4 * panel);
                  std::memset(to_ds + m * BQ, 0, 4 * panel);
                }
              }
            }
          for (Index j = 0; j < all; j += MA) {
            accumulate_rows<MA, NA, BQ, 1>(p + j * BQ, gr, firsts[j], queries, value_sums + (j0 + j) * DP);
            accumulate_rows<MA, NA, BQ, 1>(ds + j * BQ, qr, firsts[j], queries, key_sums + (j0 + j) * DP);
          }
          for (Index i = 0; i < queries; i += MQ) {
            const Index last = causal ? clamp(i0 + i + MQ + shift - j0, 0, keys) : keys;
            accumulate_rows<MQ, NQ, 1, BQ>(ds + i, kr + j0 * DP, 0, last, query_sums + i * DP);
          }
        }
        for (Index i = 0; i < queries; ++i)
          for (int d = 0; d < D; ++d) dq[q_at + i * q_step + d] = scale * query_sums[i * DP + d];
      }
    for (Index j = 0; j < S_kv; ++j) {
      for (int d = 0; d < D; ++d) dk[k_at + j * k_step + d] = scale * key_sums[j * DP + d];
      std::memcpy(dv + k_at + j * k_step, value_sums + j * DP, D * sizeof(float));
    }
  }
}
