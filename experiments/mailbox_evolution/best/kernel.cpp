/*--- cultivar
name: attention_flash_blocks
task: attention_forward
target: cpu
about: "Blocks of query rows against tiles of keys; K^T and V packed once a head, both products in MR x 2 register blocks, online softmax over a tile that stays in L1."
requires: "dtype == f32 && D % 32 == 0"
tunables:
  MR: {values: [6, 8, 12], default: 8}
  MICROS: {values: [2, 4, 6, 8], default: 4}
  KEYS: {values: [64, 128, 256, 512, 1024], default: 256}
specialize: [D, causal]
let:
  team: "num_cores"
  padded: "round_up(S_kv, 64)"
workspace:
  packed: {bytes: "4 * team * 2 * padded * D"}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, packed, B, H, H_kv, S_q, S_kv, scale, padded, thread, threads]
---*/

#include <immintrin.h>

#include <cmath>
#include <cstddef>

namespace {

typedef std::ptrdiff_t Index;
constexpr int head = D;
constexpr int block_rows = MR * MICROS;
constexpr int q_stride = head + 16;
constexpr int s_stride = KEYS + 16;
constexpr int panel = 32;  // keys of a panel of K^T, columns of a panel of V
constexpr float log2_e = 1.44269504088896341f;
constexpr float hidden = -1e30f;

#define INLINE static inline __attribute__((always_inline))

INLINE __m512 exp2_lanes(__m512 t) {
  const __m512 n = _mm512_roundscale_ps(t, 0x08);
  const __m512 f = _mm512_sub_ps(t, n);
  __m512 p = _mm512_set1_ps(0x1.59977ap-10f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3ce9e4p-7f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6bd32p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebf9bcp-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e422p-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

// c[MR][32] = (ADD ? factor * c : 0) + a[MR][count] b[count][32]
template <int A_STRIDE, int C_STRIDE, bool ADD>
INLINE void product(const float* a, const float* b, int count, float* c, const float* factor) {
  __m512 s0[MR], s1[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    if (ADD) {
      const __m512 f = _mm512_set1_ps(factor[r]);
      s0[r] = _mm512_mul_ps(f, _mm512_load_ps(c + r * C_STRIDE));
      s1[r] = _mm512_mul_ps(f, _mm512_load_ps(c + r * C_STRIDE + 16));
    } else {
      s0[r] = _mm512_setzero_ps();
      s1[r] = _mm512_setzero_ps();
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < count; ++j) {
    const __m512 b0 = _mm512_load_ps(b + j * panel);
    const __m512 b1 = _mm512_load_ps(b + j * panel + 16);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const __m512 x = _mm512_set1_ps(a[r * A_STRIDE + j]);
      s0[r] = _mm512_fmadd_ps(x, b0, s0[r]);
      s1[r] = _mm512_fmadd_ps(x, b1, s1[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    _mm512_store_ps(c + r * C_STRIDE, s0[r]);
    _mm512_store_ps(c + r * C_STRIDE + 16, s1[r]);
  }
}

// The first 16 columns only.
template <int A_STRIDE, int C_STRIDE>
INLINE void product_half(const float* a, const float* b, int count, float* c) {
  __m512 s0[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) s0[r] = _mm512_setzero_ps();
#pragma GCC unroll 2
  for (int j = 0; j < count; ++j) {
    const __m512 b0 = _mm512_load_ps(b + j * panel);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) s0[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[r * A_STRIDE + j]), b0, s0[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) _mm512_store_ps(c + r * C_STRIDE, s0[r]);
}

// 16 keys x 16 elements, from rows `stride` apart to rows of 32; keys from `rows` on are zeros.
INLINE void transpose16(const float* from, Index stride, int rows, float* to) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = i < rows ? _mm512_loadu_ps(from + i * stride) : _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
    const __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
    r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    const __m512 x0 = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
    const __m512 x1 = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
    const __m512 x2 = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
    const __m512 x3 = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);
    _mm512_store_ps(to + (i + 0) * panel, _mm512_shuffle_f32x4(x0, x1, 0x88));
    _mm512_store_ps(to + (i + 4) * panel, _mm512_shuffle_f32x4(x2, x3, 0x88));
    _mm512_store_ps(to + (i + 8) * panel, _mm512_shuffle_f32x4(x0, x1, 0xdd));
    _mm512_store_ps(to + (i + 12) * panel, _mm512_shuffle_f32x4(x2, x3, 0xdd));
  }
}

// k_pack: [keys / 32][D][32]; v_pack: [D / 32][padded][32].
void pack(const float* k, const float* v, Index stride, int keys, int padded, float* k_pack, float* v_pack) {
  for (int j = 0; j < keys; j += panel)
    for (int part = 0; part < 2; ++part) {
      const int key = j + 16 * part;
      const int rows = keys - key;  // may be none
      const float* from = rows > 0 ? k + key * stride : k;
      for (int e = 0; e < head; e += 16)
        transpose16(from + e, stride, rows, k_pack + (Index(j) * head + e * panel) + 16 * part);
    }
  for (int j = 0; j < keys; ++j)
    for (int e = 0; e < head; e += 16)
      _mm512_store_ps(v_pack + (Index(e / panel) * padded + j) * panel + e % panel, _mm512_loadu_ps(v + j * stride + e));
}

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* packed, int B, int H, int H_kv, int S_q, int S_kv, float scale,
                                  int padded, int thread, int threads) {
  alignas(64) float rows_q[block_rows * q_stride];
  alignas(64) float tile[block_rows * s_stride];
  alignas(64) float out[block_rows * head];
  alignas(64) float sums[block_rows * 16];
  alignas(64) float maxima[block_rows + 16];
  alignas(64) float factors[block_rows + 16];

  float* const k_pack = packed + Index(thread) * 2 * padded * head;
  float* const v_pack = k_pack + Index(padded) * head;
  const Index blocks = (S_q + block_rows - 1) / block_rows;
  const Index items = Index(B) * H * blocks;
  const Index first = items * thread / threads, last = items * (thread + 1) / threads;
  const Index q_step = Index(H) * head, kv_step = Index(H_kv) * head;
  const __mmask16 micro_mask = static_cast<__mmask16>((1u << MR) - 1);
  Index packed_is = -1;
  const float *k_next = k, *v_next = v;  // the key head after the one that is packed
  int ahead = 0, ahead_end = 0;          // its rows that were asked for, and that are wanted

  for (Index item = first; item < last; ++item) {
    const int block = static_cast<int>(item % blocks);
    const int h = static_cast<int>(item / blocks % H);
    const Index b = item / blocks / H;
    const int h_kv = h / (H / H_kv);
    if (b * H_kv + h_kv != packed_is) {
      packed_is = b * H_kv + h_kv;
      const Index at = (b * S_kv * H_kv + h_kv) * head;
      pack(k + at, v + at, kv_step, S_kv, padded, k_pack, v_pack);
      const Index next = packed_is + 1;
      ahead = 0;
      ahead_end = 0;
      if (next * (H / H_kv) * blocks < last) {
        const Index next_at = (next / H_kv * S_kv * H_kv + next % H_kv) * head;
        k_next = k + next_at;
        v_next = v + next_at;
        ahead_end = S_kv;
      }
    }

    const int row0 = block * block_rows;
    const int count = S_q - row0 < block_rows ? S_q - row0 : block_rows;
    const int micros = (count + MR - 1) / MR;
    auto visible = [&](int r) {  // the keys that row r of the block sees
      if (!causal) return S_kv;
      const int n = row0 + (r < count ? r : count - 1) + S_kv - S_q + 1;
      return n < 0 ? 0 : n > S_kv ? S_kv : n;
    };

    const float* const q_at = q + ((b * S_q + row0) * H + h) * head;
    for (int r = 0; r < micros * MR; ++r)
      for (int e = 0; e < head; e += 16)
        _mm512_store_ps(rows_q + r * q_stride + e,
                        r < count ? _mm512_mul_ps(_mm512_loadu_ps(q_at + r * q_step + e), _mm512_set1_ps(scale * log2_e))
                                  : _mm512_setzero_ps());
    for (int e = 0; e < micros * MR * head; e += 16) _mm512_store_ps(out + e, _mm512_setzero_ps());
    for (int r = 0; r < micros * MR; ++r) {
      _mm512_store_ps(sums + 16 * r, _mm512_setzero_ps());
      maxima[r] = hidden;
    }

    float* const o_rows = o + ((b * S_q + row0) * H + h) * head;
    const int limit = visible(count - 1);
    for (int key0 = 0; key0 < limit; key0 += KEYS) {
      // Logits: a panel of K^T stays in L1 for all rows of the block.
      for (int at = 0; at < KEYS && key0 + at < limit; at += panel)
        for (int m = 0; m < micros; ++m) {
          if (causal && key0 + at >= visible(m * MR + MR - 1)) continue;
          if (ahead < ahead_end) {  // no hardware prefetcher follows rows that lie pages apart
            for (int e = 0; e < head; e += 16) {
              __builtin_prefetch(k_next + ahead * kv_step + e, 0, 2);
              __builtin_prefetch(v_next + ahead * kv_step + e, 0, 2);
            }
            ++ahead;
          }
          if (key0 + at == 0)
            for (int r = m * MR; r < m * MR + MR; ++r)
              for (int e = 0; e < head; e += 16) {
                if (r < count) __builtin_prefetch(o_rows + r * q_step + e, 1, 2);
                if (row0 + block_rows + r < S_q) __builtin_prefetch(q_at + (block_rows + r) * q_step + e, 0, 2);
              }
          const float* const keys_at = k_pack + Index(key0 + at) * head;
          float* const tile_at = tile + m * MR * s_stride + at;
          if (causal && visible(m * MR + MR - 1) - (key0 + at) <= 16)  // the other half is hidden from all rows
            product_half<q_stride, s_stride>(rows_q + m * MR * q_stride, keys_at, head, tile_at);
          else
            product<q_stride, s_stride, false>(rows_q + m * MR * q_stride, keys_at, head, tile_at, nullptr);
        }

      // Maxima, factors, exponentials, sums.
      for (int m = 0; m < micros; ++m) {
        int width = visible(m * MR + MR - 1) - key0;
        if (width <= 0) continue;
        if (width > KEYS) width = KEYS;
        const int cover = (width + panel - 1) / panel * panel;
        alignas(64) float risen[16];
        for (int r = 0; r < MR; ++r) {
          float* const s = tile + (m * MR + r) * s_stride;
          const int seen = visible(m * MR + r) - key0;
          if (seen < cover) {
            for (int j = seen < 0 ? 0 : seen / 16 * 16; j < cover; j += 16) {
              const int left = seen - j;
              const __mmask16 keep = left <= 0 ? 0 : static_cast<__mmask16>((1u << (left < 16 ? left : 16)) - 1);
              _mm512_store_ps(s + j, _mm512_mask_mov_ps(_mm512_set1_ps(hidden), keep, _mm512_load_ps(s + j)));
            }
          }
          __m512 top0 = _mm512_load_ps(s), top1 = _mm512_load_ps(s + 16);
          for (int j = panel; j < cover; j += panel) {
            top0 = _mm512_max_ps(top0, _mm512_load_ps(s + j));
            top1 = _mm512_max_ps(top1, _mm512_load_ps(s + j + 16));
          }
          risen[r] = _mm512_reduce_max_ps(_mm512_max_ps(top0, top1));
        }
        const __m512 before = _mm512_maskz_loadu_ps(micro_mask, maxima + m * MR);
        const __m512 now = _mm512_max_ps(before, _mm512_maskz_load_ps(micro_mask, risen));
        _mm512_mask_storeu_ps(maxima + m * MR, micro_mask, now);
        _mm512_mask_storeu_ps(factors + m * MR, micro_mask,
                              exp2_lanes(_mm512_sub_ps(before, now)));
        for (int r = 0; r < MR; ++r) {
          const int row = m * MR + r;
          float* const s = tile + row * s_stride;
          const __m512 shift = _mm512_set1_ps(maxima[row]);
          __m512 sum0 = _mm512_mul_ps(_mm512_load_ps(sums + 16 * row), _mm512_set1_ps(factors[row]));
          __m512 sum1 = _mm512_setzero_ps();
          for (int j = 0; j < cover; j += panel) {
            const __m512 e0 = exp2_lanes(_mm512_sub_ps(_mm512_load_ps(s + j), shift));
            const __m512 e1 = exp2_lanes(_mm512_sub_ps(_mm512_load_ps(s + j + 16), shift));
            _mm512_store_ps(s + j, e0);
            _mm512_store_ps(s + j + 16, e1);
            sum0 = _mm512_add_ps(sum0, e0);
            sum1 = _mm512_add_ps(sum1, e1);
          }
          _mm512_store_ps(sums + 16 * row, _mm512_add_ps(sum0, sum1));
        }
      }

      // Values: a panel of V stays in L1 for all rows of the block.
      for (int e = 0; e < head; e += panel)
        for (int m = 0; m < micros; ++m) {
          int width = visible(m * MR + MR - 1) - key0;
          if (width <= 0) continue;
          if (width > KEYS) width = KEYS;
          product<s_stride, head, true>(tile + m * MR * s_stride, v_pack + Index(e) * padded + Index(key0) * panel,
                                        width, out + m * MR * head + e, factors + m * MR);
        }
    }

    float* const o_at = o + ((b * S_q + row0) * H + h) * head;
    float* const lse_at = lse + (b * H + h) * S_q + row0;
    for (int r = 0; r < count; ++r) {
      if (visible(r) <= 0) {
        for (int e = 0; e < head; e += 16) _mm512_storeu_ps(o_at + r * q_step + e, _mm512_setzero_ps());
        lse_at[r] = -INFINITY;
        continue;
      }
      const float sum = _mm512_reduce_add_ps(_mm512_load_ps(sums + 16 * r));
      const __m512 inverse = _mm512_set1_ps(1.0f / sum);
      for (int e = 0; e < head; e += 16)
        _mm512_storeu_ps(o_at + r * q_step + e, _mm512_mul_ps(inverse, _mm512_load_ps(out + r * head + e)));
      lse_at[r] = maxima[r] * 0.693147180559945309f + std::log(sum);
    }
  }
}
