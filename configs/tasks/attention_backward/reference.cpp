// The oracle of attention_backward in fp64: one row of dq (one query of one head), or one row of dk and dv (one key of
// one key head), which have rows of their own; and the legal-rounding model: f32 throughout, the probabilities and
// their gradients rounded to the I/O dtype for the products, sums in f32, rounded once. derive_row computes the
// forward pass, whose results o and lse are inputs here.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <vector>

namespace {

// What a wrong kernel does otherwise.
struct Wrong {
  bool scale = false, delta = false, lse = false;  // left out
  bool mask = false, heads = false, first_head = false, last_tile = false;
  std::int64_t more_keys = 0;  // that each query sees
};

struct Problem {
  const ReferenceTensor *q, *k, *v, *o, *grad;
  const double* lse;
  std::int64_t H, H_kv, S_q, S_kv, D;
  bool causal;
  float scale;  // a kernel argument, so f32

  explicit Problem(const ReferenceArgs& args)
      : q(args.find("q")),
        k(args.find("k")),
        v(args.find("v")),
        o(args.find("o")),
        grad(args.find("grad_o")),
        lse(args.tensor("lse")),
        H(args.integer("H")),
        H_kv(args.integer("H_kv")),
        S_q(args.integer("S_q")),
        S_kv(args.integer("S_kv")),
        D(args.integer("D")),
        causal(args.number("causal") != 0.0),
        scale(static_cast<float>(args.number("scale"))) {}

  std::int64_t query_at(std::int64_t b, std::int64_t i, std::int64_t h) const { return ((b * S_q + i) * H + h) * D; }
  std::int64_t key_at(std::int64_t b, std::int64_t j, std::int64_t h) const { return ((b * S_kv + j) * H_kv + h) * D; }
  double lse_of(std::int64_t b, std::int64_t i, std::int64_t h) const { return lse[(b * H + h) * S_q + i]; }
  // The number of keys that query i sees, and the first query that sees key j.
  std::int64_t visible(std::int64_t i, const Wrong& w = {}) const {
    return causal && !w.mask ? std::clamp<std::int64_t>(i + S_kv - S_q + 1 + w.more_keys, 0, S_kv) : S_kv;
  }
  std::int64_t first_query(std::int64_t j, const Wrong& w = {}) const {
    return causal && !w.mask ? std::clamp<std::int64_t>(j - S_kv + S_q - w.more_keys, 0, S_q) : 0;
  }
};

constexpr std::int64_t ahead = 12;  // lines that are fetched before they are read

double dot(const double* a, const double* b, std::int64_t D) {
  constexpr int lanes = 16;  // partial sums, so that the compiler may use vectors
  double sums[lanes] = {};
  std::int64_t d = 0;
  for (; d + lanes <= D; d += lanes)
    for (int l = 0; l < lanes; ++l) sums[l] += a[d + l] * b[d + l];
  for (; d < D; ++d) sums[0] += a[d] * b[d];
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

// Of the permitted roundings: in order, as a kernel may sum.
float dot(const float* a, const float* b, std::int64_t D) {
  float sum = 0.0f;
  for (std::int64_t d = 0; d < D; ++d) sum += a[d] * b[d];
  return sum;
}

// DO O. It cancels DO V^T where one key has all the weight, and a kernel may sum both in other orders, one of them by
// tensor cores, which truncate: their error is half a unit in the last place of the sum of the magnitudes.
template <class Real>
struct Delta {
  Real sum, error;
};
Delta<double> delta_of(const double* grad, const double* o, std::int64_t D, bool) { return {dot(grad, o, D), 0.0}; }
Delta<float> delta_of(const float* grad, const float* o, std::int64_t D, bool apart) {
  if (!apart) return {dot(grad, o, D), 0.0f};
  float sum = 0.0f, size = 0.0f;
  for (std::int64_t d = D - 1; d >= 0; --d) {
    sum += grad[d] * o[d];
    size += std::abs(grad[d] * o[d]);
  }
  return {sum, 0.5f * std::numeric_limits<float>::epsilon() * size};
}

// Lines of tensors in double or float precision, which hold the stored elements exactly.
struct Line {
  std::vector<double> wide;
  std::vector<float> narrow;
  explicit Line(std::int64_t D) : wide(static_cast<std::size_t>(D)), narrow(wide.size()) {}
  template <class Real>
  const Real* read(const ReferenceTensor* from, std::int64_t at) {
    from->read(at, static_cast<std::int64_t>(wide.size()), wide.data());
    if constexpr (std::is_same_v<Real, double>) {
      return wide.data();
    } else {
      std::copy(wide.begin(), wide.end(), narrow.begin());
      return narrow.data();
    }
  }
};

// The logit of a key, and by how much it may be off. The oracle is exact. Permitted roundings: three standard deviations
// of a sum in order, whose partial sums are off by up to half a unit in the last place each, and a unit of the logit, from
// the scale and from log2(e) as a factor of both exponents. LSE is an input, so the error of a large logit does not
// cancel. It may be common to all logits, which are all too large here, or independent, so that the rows add its variance.
struct Logit {
  double value, error;
};
Logit logit_of(const Line& query, const Line& key, float scale, bool rounded) {
  const std::size_t D = query.wide.size();
  const Logit exact{dot(query.wide.data(), key.wide.data(), static_cast<std::int64_t>(D)) * double(scale), 0.0};
  if (!rounded || !std::isfinite(exact.value)) return exact;
  double sum = 0.0, squares = 0.0;
  for (std::size_t d = 0; d < D; ++d) {
    sum += query.wide[d] * key.wide[d];
    squares += sum * sum;
  }
  const double in_sum = 3.0 * std::sqrt(squares / 12.0) * std::abs(double(scale));
  const double error = std::numeric_limits<float>::epsilon() * (in_sum + std::abs(exact.value));
  return {exact.value + error, error};
}

// The weight of a key and the gradient of its logit (before the scale), for a query. Permitted roundings with `base_2`,
// as in kernels that have scale and log2(e) in one factor: no subnormal numbers, and delta is summed apart from DO V^T.
template <class Real>
struct Weight {
  Real p, ds;
};
template <class Real>
Weight<Real> weight(double logit, Real dp, Real delta, Real lse, const Wrong& w, bool base_2) {
  Real p = static_cast<Real>(std::exp(logit - (w.lse ? 0.0 : double(lse))));
  if (base_2 && p < std::numeric_limits<float>::min()) p = 0;
  return {p, p * (w.delta ? dp : dp - delta)};
}

// variance += (factor * off * line)^2
template <class Real>
void add_variance(Real factor, double off, const Real* line, std::vector<double>& variance) {
  const double error = double(factor) * off;
  if (error == 0.0) return;
  for (std::size_t d = 0; d < variance.size(); ++d) variance[d] += error * line[d] * error * line[d];
}

// `deviations`: of the permitted roundings with base_2, receives the standard deviation of each element from their
// independent errors; nullptr: the other roundings, or the oracle.
template <class Real, class Round>
void dq_row(const Problem& t, std::int64_t row, double* out, const Wrong& w, double* deviations, const Round& round) {
  const bool base_2 = deviations != nullptr;
  const auto h = row % t.H, i = row / t.H % t.S_q, b = row / t.H / t.S_q;  // rows walk [B, S_q, H]
  const auto hk = w.heads ? h % t.H_kv : h / (t.H / t.H_kv);
  const auto visible = t.visible(i, w), keys = w.last_tile && visible > 64 ? (visible - 1) / 64 * 64 : visible;
  Line query(t.D), grad(t.D), key(t.D), value(t.D), output(t.D);
  query.read<Real>(t.q, t.query_at(b, i, h));
  const Real *const g = grad.read<Real>(t.grad, t.query_at(b, i, h)),
             *const o = output.read<Real>(t.o, t.query_at(b, i, h));
  const auto [product, off] = delta_of(g, o, t.D, base_2);
  const Real delta = i % 2 == 0 ? product - off : product + off, lse = static_cast<Real>(t.lse_of(b, i, h));
  std::vector<Real> sum(static_cast<std::size_t>(t.D));
  std::vector<double> variance(sum.size());
  for (std::int64_t j = 0; j < keys; ++j) {
    if (j + ahead < keys) {
      t.k->expect(t.key_at(b, j + ahead, hk), t.D);
      t.v->expect(t.key_at(b, j + ahead, hk), t.D);
    }
    const Real* const k = key.read<Real>(t.k, t.key_at(b, j, hk));
    const Real* const v = value.read<Real>(t.v, t.key_at(b, j, hk));
    const Logit logit = logit_of(query, key, t.scale, base_2);
    const Real ds = weight(logit.value, dot(g, v, t.D), delta, lse, w, base_2).ds, rounded = round(ds);
    for (std::int64_t d = 0; d < t.D; ++d) sum[d] += rounded * k[d];
    add_variance(ds, logit.error, k, variance);
  }
  const Real scale = w.scale ? Real(1) : static_cast<Real>(t.scale);
  for (std::int64_t d = 0; d < t.D; ++d) out[d] = sum[d] * scale;
  if (base_2)
    for (std::int64_t d = 0; d < t.D; ++d) deviations[d] = std::sqrt(variance[d]) * std::abs(scale);
}

template <class Real, class Round>
void dkv_row(const Problem& t, std::int64_t row, double* out, const Wrong& w, double* deviations, const Round& round) {
  const bool base_2 = deviations != nullptr;
  const auto hk = row % t.H_kv, j = row / t.H_kv % t.S_kv, b = row / t.H_kv / t.S_kv;  // [B, S_kv, H_kv]
  const auto group = t.H / t.H_kv, first = t.first_query(j, w);
  const auto last = w.last_tile && t.S_q > 64 ? (t.S_q - 1) / 64 * 64 : t.S_q;
  Line query(t.D), grad(t.D), key(t.D), value(t.D), output(t.D);
  key.read<Real>(t.k, t.key_at(b, j, hk));
  const Real* const v = value.read<Real>(t.v, t.key_at(b, j, hk));
  std::vector<Real> dk(static_cast<std::size_t>(t.D)), dv(dk.size());
  std::vector<double> dk_variance(dk.size()), dv_variance(dk.size());
  for (std::int64_t member = 0; member < (w.first_head ? 1 : group); ++member) {
    const auto h = w.heads ? member * t.H_kv + hk : hk * group + member;
    for (std::int64_t i = first; i < last; ++i) {
      if (i + ahead < last)
        for (const ReferenceTensor* const tensor : {t.q, t.grad, t.o}) tensor->expect(t.query_at(b, i + ahead, h), t.D);
      const Real* const q = query.read<Real>(t.q, t.query_at(b, i, h));
      const Real* const g = grad.read<Real>(t.grad, t.query_at(b, i, h));
      const Real* const o = output.read<Real>(t.o, t.query_at(b, i, h));
      const Logit logit = logit_of(query, key, t.scale, base_2);
      const auto delta = delta_of(g, o, t.D, base_2);
      const auto [p, ds] =
          weight(logit.value, dot(g, v, t.D), delta.sum, static_cast<Real>(t.lse_of(b, i, h)), w, base_2);
      const Real rounded = round(p), gradient = round(ds);
      for (std::int64_t d = 0; d < t.D; ++d) dk[d] += gradient * q[d];
      for (std::int64_t d = 0; d < t.D; ++d) dv[d] += rounded * g[d];
      add_variance(ds, logit.error, q, dk_variance);
      add_variance(p, 2.0 * delta.error, q, dk_variance);
      add_variance(p, logit.error, g, dv_variance);
    }
  }
  const Real scale = w.scale ? Real(1) : static_cast<Real>(t.scale);
  for (std::int64_t d = 0; d < t.D; ++d) {
    out[d] = dk[d] * scale;
    out[t.D + d] = dv[d];
    if (!base_2) continue;
    deviations[d] = std::sqrt(dk_variance[d]) * std::abs(scale);
    deviations[t.D + d] = std::sqrt(dv_variance[d]);
  }
}

void gradients(const ReferenceArgs& args, std::int64_t row, double* out, const Wrong& w = {}) {
  const Problem t(args);
  const auto exact = [](double value) { return value; };
  if (args.is_row_of("dk"))
    dkv_row<double>(t, row, out, w, nullptr, exact);
  else
    dq_row<double>(t, row, out, w, nullptr, exact);
}

}  // namespace

// out: D elements of dq; or, if the row is one of dk's, D elements of dk, then D of dv.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out);
}

// Two legal kernels, which differ in the exponential and in delta; the tolerance follows the one that is farther from exact.
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Problem t(args);
  const bool keys = args.is_row_of("dk");
  const auto round = [&](float value) { return static_cast<float>(args.round(value)); };
  const auto elements = static_cast<std::size_t>(keys ? 2 * t.D : t.D);
  std::vector<double> exact(elements), other(elements), deviations(elements);
  gradients(args, row, exact.data());
  const auto permitted = [&](double* to, double* off) {
    if (keys)
      dkv_row<float>(t, row, to, {}, off, round);
    else
      dq_row<float>(t, row, to, {}, off, round);
  };
  permitted(out, nullptr);
  permitted(other.data(), deviations.data());
  for (std::size_t e = 0; e < elements; ++e) {
    out[e] = args.round(out[e]);
    other[e] = args.round(other[e] + std::copysign(deviations[e], other[e] - exact[e]));
    if (std::abs(other[e] - exact[e]) > std::abs(out[e] - exact[e])) out[e] = other[e];
  }
}

// --- The inputs o and lse: the forward pass of one head, in f32 with an online softmax. ---

namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef float Stored __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef std::int32_t Bits __attribute__((vector_size(4 * lanes)));

// A product is computed in blocks of so many rows and columns, whose sums fit the registers.
constexpr int block_rows = lanes == 16 ? 12 : 6, columns = 2 * lanes;
constexpr int tile_queries = 96, tile_keys = 128, tile_depth = tile_keys;

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")  // a * b + c in one instruction

// c[m][n] += a[m][k] * b[k][n] for all m < rows, a multiple of block_rows, k < inner, n < columns. Rows of a lie
// tile_keys apart.
template <int c_stride>
void add_product(int rows, int inner, const float* a, const float* b, float* c) {
  for (int row = 0; row < rows; row += block_rows, a += block_rows * tile_keys, c += block_rows * c_stride) {
    Vector sums[block_rows][2];
    for (int m = 0; m < block_rows; ++m)
      for (int n = 0; n < 2; ++n) sums[m][n] = *reinterpret_cast<const Stored*>(c + m * c_stride + n * lanes);
    for (int k = 0; k < inner; ++k) {
      const Vector left = *reinterpret_cast<const Stored*>(b + k * columns),
                   right = *reinterpret_cast<const Stored*>(b + k * columns + lanes);
      for (int m = 0; m < block_rows; ++m) {
        sums[m][0] += a[m * tile_keys + k] * left;
        sums[m][1] += a[m * tile_keys + k] * right;
      }
    }
    for (int m = 0; m < block_rows; ++m)
      for (int n = 0; n < 2; ++n) *reinterpret_cast<Stored*>(c + m * c_stride + n * lanes) = sums[m][n];
  }
}

// e^x for x <= 0: 2^n by the exponent's bits, the rest by a polynomial (error below 2 units in the last place); 0 below
// e^-87.
inline Vector exp_of(Vector x) {
  constexpr float shift = 0x1.8p23f;  // the last bits of `shifted` are n
  const Vector shifted = x * 1.44269504f + shift, n = shifted - shift;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = Vector{} + 1.9875691500e-4f;
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = p * r + c;
  const Vector power = reinterpret_cast<Vector>((reinterpret_cast<Bits>(shifted) << 23) + (127 << 23));
  return x < -87.0f ? Vector{} : (p * r * r + r + 1.0f) * power;
}

// Scales the logits of one query, of which it sees the first `seen`, and returns the greatest, at least `top`.
inline float scale_logits(float* logits, int seen, float scale, float top) {
  Bits index;
  for (int l = 0; l < lanes; ++l) index[l] = l;
  const Vector lowest = Vector{} - std::numeric_limits<float>::infinity();
  Vector tops = lowest;
  for (int j = 0; j < tile_keys; j += lanes, index += lanes) {
    Stored& logit = *reinterpret_cast<Stored*>(logits + j);
    const Vector value = index < seen ? logit * scale : lowest;
    tops = value > tops ? value : tops;
    logit = value;
  }
  for (int l = 0; l < lanes; ++l) top = std::max(top, tops[l]);
  return top;
}

// Replaces logits by e^(logit - top) and returns their sum.
inline float exponentiate(float* logits, float top) {
  Vector sum{};
  for (int j = 0; j < tile_keys; j += lanes) {
    Stored& logit = *reinterpret_cast<Stored*>(logits + j);
    const Vector power = exp_of(logit - top);
    logit = power;
    sum += power;
  }
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) sum[l] += sum[l + half];
  return sum[0];
}

#pragma GCC pop_options

// The keys and values of a head: keys in panels of `columns` keys, [panel][D][key]; values in panels of `columns`
// elements, [panel][key][element]. Padded by zeros.
struct Head {
  std::int64_t length;  // keys, rounded up to tiles
  std::vector<float> keys, values;
  Head(const Problem& t, std::int64_t b, std::int64_t hk)
      : length((t.S_kv + tile_keys - 1) / tile_keys * tile_keys),
        keys(static_cast<std::size_t>(length * t.D)),
        values(static_cast<std::size_t>((t.D + columns - 1) / columns * columns * length)) {
    std::vector<double> line(static_cast<std::size_t>(t.D));
    for (std::int64_t j = 0; j < t.S_kv; ++j) {
      if (j + ahead < t.S_kv)
        for (const ReferenceTensor* const tensor : {t.k, t.v}) tensor->expect(t.key_at(b, j + ahead, hk), t.D);
      t.k->read(t.key_at(b, j, hk), t.D, line.data());
      float* const key = keys.data() + j / columns * columns * t.D + j % columns;
      for (std::int64_t d = 0; d < t.D; ++d) key[d * columns] = static_cast<float>(line[d]);
      t.v->read(t.key_at(b, j, hk), t.D, line.data());
      for (std::int64_t d = 0; d < t.D; ++d)
        values[(d / columns * length + j) * columns + d % columns] = static_cast<float>(line[d]);
    }
  }
};

}  // namespace

// out: S_q x D elements of o, then S_q of lse, of one head: rows walk [B, H]. A query that sees no key: 0 and -inf.
extern "C" void derive_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  const Problem t(args);
  const auto h = row % t.H, b = row / t.H;
  const Head head(t, b, h / (t.H / t.H_kv));
  const std::int64_t panels = (t.D + columns - 1) / columns, depths = (t.D + tile_depth - 1) / tile_depth;
  // Of a tile: where queries are few, as in shapes with many heads, it must not take as long as a full one.
  const auto tile_rows = static_cast<int>(std::min<std::int64_t>(
      tile_queries, (std::min<std::int64_t>(t.S_q, tile_queries) + block_rows - 1) / block_rows * block_rows));
  std::vector<double> line(static_cast<std::size_t>(t.D));
  std::vector<float> queries(std::size_t(depths) * tile_rows * tile_depth),  // [depth][query][element]
      sums(std::size_t(panels) * tile_rows * columns), logits(std::size_t(tile_rows) * tile_keys);
  for (std::int64_t first = 0; first < t.S_q; first += tile_queries) {
    const auto count = static_cast<int>(std::min<std::int64_t>(tile_queries, t.S_q - first));
    std::fill(queries.begin(), queries.end(), 0.0f);
    std::fill(sums.begin(), sums.end(), 0.0f);
    std::array<float, tile_queries> maximum;
    std::array<double, tile_queries> total{};
    maximum.fill(lowest);
    for (int i = 0; i < count; ++i) {
      t.q->read(t.query_at(b, first + i, h), t.D, line.data());
      for (std::int64_t d = 0; d < t.D; ++d)
        queries[(d / tile_depth * tile_rows + i) * tile_depth + d % tile_depth] = static_cast<float>(line[d]);
    }
    const auto end = t.visible(first + count - 1);
    for (std::int64_t tile = 0; tile < end; tile += tile_keys) {
      std::fill(logits.begin(), logits.end(), 0.0f);
      for (std::int64_t depth = 0; depth < depths; ++depth)
        for (int j = 0; j < tile_keys; j += columns)
          add_product<tile_keys>(tile_rows,
                                 static_cast<int>(std::min<std::int64_t>(tile_depth, t.D - depth * tile_depth)),
                                 queries.data() + depth * tile_rows * tile_depth,
                                 head.keys.data() + (tile + j) * t.D + depth * tile_depth * columns, logits.data() + j);
      for (int i = 0; i < tile_rows; ++i) {
        float* const logit = logits.data() + i * tile_keys;
        const auto seen =
            i < count ? static_cast<int>(std::clamp<std::int64_t>(t.visible(first + i) - tile, 0, tile_keys)) : 0;
        if (seen == 0) {
          std::fill_n(logit, tile_keys, 0.0f);
          continue;
        }
        if (const float top = scale_logits(logit, seen, t.scale, maximum[i]); top > maximum[i]) {
          const float rescale = maximum[i] == lowest ? 0.0f : std::exp(maximum[i] - top);
          total[i] *= rescale;
          for (std::int64_t p = 0; p < panels; ++p)
            for (int n = 0; n < columns; ++n) sums[(p * tile_rows + i) * columns + n] *= rescale;
          maximum[i] = top;
        }
        total[i] += exponentiate(logit, maximum[i]);
      }
      for (std::int64_t p = 0; p < panels; ++p)
        add_product<columns>(tile_rows, static_cast<int>(std::min<std::int64_t>(tile_keys, t.S_kv - tile)),
                             logits.data(), head.values.data() + (p * head.length + tile) * columns,
                             sums.data() + p * tile_rows * columns);
    }
    for (int i = 0; i < count; ++i) {
      double* const o = out + (first + i) * t.D;
      const double factor = total[i] > 0.0 ? 1.0 / total[i] : 0.0;
      for (std::int64_t d = 0; d < t.D; ++d)
        o[d] = factor * sums[(d / columns * tile_rows + i) * columns + d % columns];
      out[t.S_q * t.D + first + i] = total[i] > 0.0 ? double(maximum[i]) + std::log(total[i]) : double(lowest);
    }
  }
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_no_scale(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.scale = true});
}
extern "C" void control_no_delta(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.delta = true});
}
extern "C" void control_no_lse(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.lse = true});
}
extern "C" void control_ignores_mask(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.mask = true});
}
extern "C" void control_mask_one_off(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.more_keys = 1});
}
extern "C" void control_mask_one_short(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.more_keys = -1});
}
extern "C" void control_wrong_heads(const ReferenceArgs& args, std::int64_t row, double* out) {
  // dq is right, so that only dk and dv can give it away.
  gradients(args, row, out, {.heads = args.is_row_of("dk")});
}
extern "C" void control_first_head(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.first_head = true});
}
extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out, {.last_tile = true});
}
extern "C" void control_swaps_dk_and_dv(const ReferenceArgs& args, std::int64_t row, double* out) {
  gradients(args, row, out);
  if (const auto D = args.integer("D"); args.is_row_of("dk")) std::swap_ranges(out, out + D, out + D);
}
