// What rounding costs each scheme of an attention kernel's softmax, computed on the CPU in the kernels' own
// arithmetic (f32 logits, sums and accumulators; weights and O in bf16 or f16): the RMS error of O against
// fp64, relative to FlashAttention-3's scheme and to the task's legal-rounding model (reference.cpp, which is
// included). No GPU is needed.
//   g++ -std=c++20 -O3 -march=native -I evaluators/references experiments/attention_h200/rounding.cpp -o rounding
//   ./rounding long            rows of 4,096 keys, D 128: the table of README.md, with how often a tile is
//   treated
//   ./rounding stress TRIALS   the task's stress shapes: the ratios by which the task's bounds were chosen
#include "../../configs/tasks/attention_forward/reference.cpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>

namespace {

using Row32 = std::vector<float>;

float round_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}
float round_f16(float x) {
  return static_cast<float>(static_cast<_Float16>(x));
}

bool half_type = false;  // f16 instead of bf16
float rounded(float x) {
  return half_type ? round_f16(x) : round_bf16(x);
}
double rounded_double(double x) {
  return rounded(static_cast<float>(x));
}

// One head: S_q queries on S_kv keys.
struct Head {
  int S_q, S_kv, D;
  bool causal;
  std::vector<float> q, k, v;
  Head(int S_q, int S_kv, int D, bool causal)
      : S_q(S_q), S_kv(S_kv), D(D), causal(causal), q(S_q * D), k(S_kv * D), v(S_kv * D) {}
  int visible(int i) const { return causal ? std::clamp(i + S_kv - S_q + 1, 0, S_kv) : S_kv; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(D)); }
};

// Logits times log2(e) / sqrt(D) are formed in the exponent, as kernels do.
Row32 logits(const Head& h, int i) {
  Row32 s(h.S_kv, -std::numeric_limits<float>::infinity());
  for (int j = 0; j < h.visible(i); ++j) {
    float dot = 0.0f;
    for (int d = 0; d < h.D; ++d) dot += h.q[i * h.D + d] * h.k[j * h.D + d];
    s[j] = dot;
  }
  return s;
}

struct State {  // of a row
  float base = 0.0f;
  std::array<float, 4> sum{}, correction{};  // of each of the four threads that have a part of the row
  Row32 o;
  float total() const { return (sum[0] + sum[1]) + (sum[2] + sum[3]); }
  float corrected() const {
    return total() + ((correction[0] + correction[1]) + (correction[2] + correction[3]));
  }
};
void rescale(State& row, float by) {
  for (int t = 0; t < 4; ++t) row.sum[t] *= by, row.correction[t] *= by;
  for (float& x : row.o) x *= by;
}
int thread_of(int key) {
  return key % 8 / 2;
}

struct Treated {  // tiles that a warp, and a block of 8 warps, treat separately
  double warps = 0, blocks = 0, tiles = 0;
};

// P V of a tile, P rounded; a tile's products are summed before they are added, as the tensor core does in
// some order.
void add_values(const Head& h, State& row, const float* p, int first, int n) {
  for (int j = 0; j < n; ++j) {
    const float w = rounded(p[j]);
    if (w == 0.0f) continue;
    const float* const value = &h.v[(first + j) * h.D];
    for (int d = 0; d < h.D; ++d) row.o[d] += w * value[d];
  }
}

using Out = std::vector<double>;  // rows of O
struct Scheme {
  std::string name;
  std::function<void(const Head&, const std::vector<Row32>& logits, int first_row, Out&, Treated&)>
      run;  // 128 rows
};

// FlashAttention-3: weights relative to the row's running maximum, the last keys first.
void running_maximum(const Head& h, const std::vector<Row32>& s, int first_row, Out& out, int n,
                     bool backward) {
  const float scale = h.scale() * 1.44269504f;
  const int tiles = (h.S_kv + n - 1) / n;
  for (std::size_t r = 0; r < s.size(); ++r) {
    State row;
    row.o.assign(h.D, 0.0f);
    float maximum = -std::numeric_limits<float>::infinity();
    std::vector<float> p(n);
    for (int t = 0; t < tiles; ++t) {
      const int first = (backward ? tiles - 1 - t : t) * n, here = std::min(n, h.S_kv - first);
      float high = maximum;
      for (int j = 0; j < here; ++j) high = std::max(high, s[r][first + j]);
      if (high == -std::numeric_limits<float>::infinity()) continue;
      if (high > maximum && maximum > -std::numeric_limits<float>::infinity())
        rescale(row, std::exp2((maximum - high) * scale));
      maximum = high;
      for (int j = 0; j < here; ++j) {
        p[j] = std::exp2(std::fma(s[r][first + j], scale, -maximum * scale));
        row.sum[thread_of(j)] += p[j];
      }
      add_values(h, row, p.data(), first, here);
    }
    const float all = row.total();
    for (int d = 0; d < h.D; ++d)
      out[(first_row + r) * h.D + d] = all == 0 ? 0.0 : rounded(row.o[d] * (1.0f / all));
  }
}

// No maximum is known but that of the first tile (one_pass.cu, idea 15), and what is done about heavy
// weights.
enum class Remedy { none, new_base, corrected_sum };
struct Late {
  int n = 128;
  Remedy remedy = Remedy::none;
  float part = 0.5f;  // of a thread's sum: what is much
  bool apart = true;  // one half of the thread's weights more than the other, rather than all of them
  float heavy = 16.0f;
  float against = 0.5f;  // of one half of a thread's weights, how much is taken from the other
};
void late_base(const Head& h, const std::vector<Row32>& s, int first_row, Out& out, Treated& treated,
               const Late& how) {
  const float scale = h.scale() * 1.44269504f, infinity = std::numeric_limits<float>::infinity();
  const int n = how.n, tiles = (h.S_kv + n - 1) / n;
  std::vector<std::vector<bool>> fired(tiles, std::vector<bool>((s.size() + 15) / 16));
  for (std::size_t warp = 0; warp < s.size(); warp += 16) {
    const std::size_t rows = std::min<std::size_t>(16, s.size() - warp);
    std::vector<State> state(rows);
    std::vector<std::vector<float>> p(rows, std::vector<float>(n));
    std::vector<bool> begun(rows);
    bool first_tile = true;
    for (auto& row : state) row.o.assign(h.D, 0.0f), row.base = -infinity;
    std::vector<float> owed(rows, 1.0f);
    for (int t = tiles - 1; t >= 0; --t) {
      const int first = t * n, here = std::min(n, h.S_kv - first);
      bool sees = false, masked = false;
      for (std::size_t r = 0; r < rows; ++r)
        for (int j = 0; j < here; ++j) {
          const bool dark = s[warp + r][first + j] == -infinity;
          sees |= !dark, masked |= dark;
        }
      if (!sees) continue;
      if (first_tile || masked) {  // with a look for the maximum
        for (std::size_t r = 0; r < rows; ++r) {
          rescale(state[r], owed[r]), owed[r] = 1.0f;
          float high = -infinity;
          for (int j = 0; j < here; ++j) high = std::max(high, s[warp + r][first + j] * scale);
          if (high > state[r].base + (first_tile ? 0.0f : how.remedy == Remedy::none ? 8.0f : 0.0f)) {
            if (state[r].base > -infinity) rescale(state[r], std::exp2(state[r].base - high));
            state[r].base = high;
          }
          for (int j = 0; j < here; ++j) {
            p[r][j] = state[r].base == -infinity
                          ? 0.0f
                          : std::exp2(std::fma(s[warp + r][first + j], scale, -state[r].base));
            state[r].sum[thread_of(j)] += p[r][j];
          }
        }
        first_tile = false;
      } else {
        std::vector<std::array<float, 4>> sum(rows), apart(rows);
        bool much = false, grown = false, again = false;
        for (std::size_t r = 0; r < rows; ++r) {
          std::array<std::array<float, 2>, 4> half{};
          for (int j = 0; j < here; ++j) {
            p[r][j] = std::exp2(std::fma(s[warp + r][first + j], scale, -state[r].base));
            half[thread_of(j)][j % 2] += p[r][j];
          }
          for (int q = 0; q < 4; ++q) {
            sum[r][q] = half[q][0] + half[q][1],
            apart[r][q] = std::abs(half[q][0] - how.against * half[q][1]);
            grown |= !(sum[r][q] <= 256.0f);
            again |= !(sum[r][q] <= (half_type ? 32768.0f : 1e30f));
            much |= (how.apart ? apart[r][q] : sum[r][q]) > how.part * state[r].sum[q];
          }
        }
        for (std::size_t r = 0; r < rows; ++r) rescale(state[r], owed[r]), owed[r] = 1.0f;
        if (again) {
          for (std::size_t r = 0; r < rows; ++r) {
            float high = -infinity;
            for (int j = 0; j < here; ++j) high = std::max(high, s[warp + r][first + j] * scale);
            if (high > state[r].base)
              rescale(state[r], std::exp2(state[r].base - high)), state[r].base = high;
            sum[r] = {};
            for (int j = 0; j < here; ++j)
              p[r][j] = std::exp2(std::fma(s[warp + r][first + j], scale, -state[r].base)),
              sum[r][thread_of(j)] += p[r][j];
          }
        } else if (how.remedy == Remedy::new_base && (much || grown)) {
          fired[t][warp / 16] = true;
          for (std::size_t r = 0; r < rows; ++r) {
            const float top = *std::max_element(p[r].begin(), p[r].begin() + here), all = state[r].total();
            if (!(top > 1.0f && (top > 256.0f || how.heavy * top > all))) {
              continue;
            }
            const float base = state[r].base + std::log2(top), by = std::exp2(state[r].base - base);
            state[r].base = base;
            rescale(state[r], by);
            for (int q = 0; q < 4; ++q) sum[r][q] *= by;
            for (int j = 0; j < here; ++j) p[r][j] *= by;
          }
        } else if (grown) {
          for (std::size_t r = 0; r < rows; ++r) {
            const float top = std::max(1.0f, *std::max_element(sum[r].begin(), sum[r].end()));
            owed[r] = std::exp2(-std::floor(std::log2(top)));
          }
        }
        if (how.remedy == Remedy::corrected_sum && (much || grown || again)) {
          fired[t][warp / 16] = true;
          for (std::size_t r = 0; r < rows; ++r) {
            std::array<float, 4> of_rounded{};
            for (int j = 0; j < here; ++j) of_rounded[thread_of(j)] += rounded(p[r][j]);
            for (int q = 0; q < 4; ++q) state[r].correction[q] += of_rounded[q] - sum[r][q];
          }
        }
        for (std::size_t r = 0; r < rows; ++r)
          for (int q = 0; q < 4; ++q) state[r].sum[q] += sum[r][q];
      }
      for (std::size_t r = 0; r < rows; ++r) {
        add_values(h, state[r], p[r].data(), first, here);
        if (owed[r] != 1.0f) {
          rescale(state[r], owed[r]);
          state[r].base -= std::log2(owed[r]);
          owed[r] = 1.0f;
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      const float all = state[r].corrected();
      for (int d = 0; d < h.D; ++d)
        out[(first_row + warp + r) * h.D + d] = all == 0 ? 0.0 : rounded(state[r].o[d] * (1.0f / all));
    }
  }
  for (const auto& tile : fired) {
    bool any = false;
    for (const bool f : tile) treated.warps += f, any |= f;
    treated.blocks += any;
  }
  treated.tiles += 1;
}

Scheme late(const std::string& name, Late how) {
  return {name, [=](const Head& h, const std::vector<Row32>& s, int first, Out& out, Treated& t) {
            late_base(h, s, first, out, t, how);
          }};
}
Scheme running(const std::string& name, int n, bool backward) {
  return {name, [=](const Head& h, const std::vector<Row32>& s, int first, Out& out, Treated&) {
            running_maximum(h, s, first, out, n, backward);
          }};
}

// --- Inputs ---

void draw(const std::string& kind, Head& h, std::mt19937_64& stream) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  for (auto* const x : {&h.q, &h.k, &h.v})
    for (float& value : *x) value = normal(stream);
  const int D = h.D;
  const auto each_key = [&](const auto& change) {
    for (int j = 0; j < h.S_kv; ++j) change(j, &h.k[j * D]);
  };
  const auto scale_all = [](std::vector<float>& x, float by) {
    for (float& value : x) value *= by;
  };
  if (kind == "outlier_keys") {  // one in each hundred, as the fill `outliers`
    for (int begin = 0; begin < h.S_kv; begin += 100) {
      const int j = begin + static_cast<int>(stream() % 100);
      if (j < h.S_kv)
        for (int d = 0; d < D; ++d) h.k[j * D + d] *= 30;
    }
  }
  if (kind == "keys_x8")
    each_key([&](int, float* k) {
      if (uniform(stream) < 0.01f)
        for (int d = 0; d < D; ++d) k[d] *= 8;
    });
  if (kind == "peaked") scale_all(h.q, 3), scale_all(h.k, 3);
  if (kind == "q_x1.5") scale_all(h.q, 1.5f);
  if (kind == "q_x2") scale_all(h.q, 2);
  if (kind == "outlier_dimension") {
    const int at = static_cast<int>(stream() % D);
    for (int i = 0; i < h.S_q; ++i) h.q[i * D + at] *= 40;
    for (int j = 0; j < h.S_kv; ++j) h.k[j * D + at] *= 40;
  }
  if (kind == "sink") {  // the first key has a share of each row that varies around a half
    for (int i = 0; i < h.S_q * D; ++i) h.q[i] += 0.7f;
    for (int d = 0; d < D; ++d) h.k[d] = std::sqrt(128.0f / D) * std::log(static_cast<float>(h.S_kv)) / 7.0f;
  }
  if (kind == "equal_keys")
    each_key([&](int j, float* k) {
      if (j > 0) std::copy(&h.k[0], &h.k[D], k);
    });
  if (kind == "tiny_logits") scale_all(h.k, 1e-3f);
  if (kind == "stairs") {
    for (int i = 0; i < h.S_q * D; ++i) h.q[i] = 0.5f;
    for (int j = 0; j < h.S_kv; ++j)
      for (int d = 0; d < D; ++d) h.k[j * D + d] = 0.25f * h.k[j * D + d] + 4.0f * (j / 64) * 64 / h.S_kv;
  }
  if (kind == "falling_stairs") {
    for (int i = 0; i < h.S_q * D; ++i) h.q[i] = 0.5f;
    for (int j = 0; j < h.S_kv; ++j)
      for (int d = 0; d < D; ++d) h.k[j * D + d] = 0.25f * h.k[j * D + d] - 4.0f * (j / 64) * 64 / h.S_kv;
  }
  if (kind == "few_far") {  // nearly all keys far below a few
    each_key([&](int j, float* k) {
      for (int d = 0; d < D; ++d) k[d] = 0.1f * k[d] + (j % 500 == 7 ? 1.0f : 0.0f);
    });
    for (float& x : h.q) x = 0.3f * x + 0.5f;
  }
  if (kind == "needle") {
    std::fill(h.v.begin(), h.v.end(), 0.0f);
    for (int d = 0; d < D; ++d) h.v[(stream() % h.S_kv) * D + d] = 100;
  }
  if (kind == "half_zero")
    for (int i = 0; i < h.S_q; i += 2) std::fill(&h.q[i * D], &h.q[i * D] + D, 0.0f);
  if (kind == "pairs")
    each_key([&](int j, float* k) {
      if (j % 2 && j % 100 == 51)
        for (int d = 0; d < D; ++d) k[d] = k[d - D] *= 20;
    });
  if (kind == "extreme_range")
    for (float& x : h.q) x = (stream() & 1 ? -1.0f : 1.0f) * std::exp(2.5f * (2 * uniform(stream) - 1));
  for (auto* const x : {&h.q, &h.k, &h.v})
    for (float& value : *x) value = rounded(value);
}
const std::vector<std::string> kKinds = {
    "normal",    "outlier_keys", "keys_x8",      "q_x1.5", "q_x2",           "peaked",  "outlier_dimension",
    "sink",      "equal_keys",   "tiny_logits",  "stairs", "falling_stairs", "few_far", "needle",
    "half_zero", "pairs",        "extreme_range"};

// --- Errors ---

struct Error {
  double squares = 0, max = 0;
  std::int64_t count = 0;
  void add(double error) { squares += error * error, max = std::max(max, std::abs(error)), ++count; }
  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
};

struct Exact {
  Out exact, legal;
};
Exact exact_rows(const Head& h, int first, int count, bool with_legal) {
  std::vector<double> q(h.q.begin(), h.q.end()), k(h.k.begin(), h.k.end()), v(h.v.begin(), h.v.end());
  const std::int64_t qs[] = {1, h.S_q, 1, h.D}, ks[] = {1, h.S_kv, 1, h.D};
  const ReferenceTensor tensors[] = {{"q", q.data(), qs, 4}, {"k", k.data(), ks, 4}, {"v", v.data(), ks, 4}};
  const ReferenceNumber numbers[] = {{"B", 1},
                                     {"H", 1},
                                     {"H_kv", 1},
                                     {"S_q", double(h.S_q)},
                                     {"S_kv", double(h.S_kv)},
                                     {"D", double(h.D)},
                                     {"causal", double(h.causal)},
                                     {"scale", h.scale()},
                                     {"window", 0},
                                     {"softcap", 0}};
  const ReferenceArgs args{tensors, 3, numbers, int(std::size(numbers)), rounded_double};
  Exact e{Out(h.S_q * h.D), Out(h.S_q * h.D)};
  std::vector<double> row(h.D + 1);
  for (int i = first; i < first + count; ++i) {
    reference_row(args, i, row.data());
    std::copy_n(row.data(), h.D, &e.exact[i * h.D]);
    if (!with_legal) continue;
    reference_row_rounded(args, i, row.data());
    std::copy_n(row.data(), h.D, &e.legal[i * h.D]);
  }
  return e;
}
void add_errors(Error& error, const Out& got, const Out& exact, const Head& h, int first, int count) {
  for (int i = first * h.D; i < (first + count) * h.D; ++i) error.add(got[i] - exact[i]);
}

int long_rows() {
  std::vector<Scheme> schemes = {
      running("FA3", 128, true),
      running("FA2", 64, false),
      late("one_pass", {}),
      late("exact_peaks", {.remedy = Remedy::new_base}),
      late("PEAK=1,HEAVY=8", {.remedy = Remedy::new_base, .part = 1, .heavy = 8}),
      late("WATCH=all,PEAK=1,HEAVY=8", {.remedy = Remedy::new_base, .part = 1, .apart = false, .heavy = 8}),
      late("corrected sum", {.remedy = Remedy::corrected_sum}),
  };
  std::printf(
      "rms error relative to FA3's (max error), tiles of 32 that one of the 8 warps treats\n| inputs |");
  for (const auto& s : schemes) std::printf(" %s |", s.name.c_str());
  std::printf(" legal |\n");
  std::mt19937_64 stream(7);
  for (const std::string& kind : kKinds) {
    std::vector<Error> errors(schemes.size());
    std::vector<Treated> treated(schemes.size());
    Error legal;
    for (int head = 0; head < 2; ++head) {
      Head h(128, 4096, 128, false);
      draw(kind, h, stream);
      const Exact e = exact_rows(h, 0, 128, true);
      std::vector<Row32> s;
      for (int i = 0; i < 128; ++i) s.push_back(logits(h, i));
      Out out(128 * h.D);
      for (std::size_t c = 0; c < schemes.size(); ++c) {
        schemes[c].run(h, s, 0, out, treated[c]);
        add_errors(errors[c], out, e.exact, h, 0, 128);
      }
      add_errors(legal, e.legal, e.exact, h, 0, 128);
    }
    std::printf("| %s |", kind.c_str());
    for (std::size_t c = 0; c < schemes.size(); ++c) {
      std::printf(" %.3f (%.2f)", errors[c].rms() / errors[0].rms(), errors[c].max / errors[0].max);
      if (treated[c].blocks > 0) std::printf(" %.1f", treated[c].blocks / treated[c].tiles);
      std::printf(" |");
    }
    std::printf(" %.3f |\n", legal.rms() / errors[0].rms());
    std::fflush(stdout);
  }
  return 0;
}

// The ratios to the legal-rounding model in whole stress runs: the bound must let the first schemes pass and
// refuse `one_pass`.
int stress(int trials) {
  struct ShapeOf {
    int heads, S_q, S_kv, D;
    bool causal;
  };
  const ShapeOf shapes[] = {{2, 256, 256, 64, false},
                            {2, 256, 256, 64, true},
                            {1, 256, 192, 64, true},
                            {1, 192, 192, 128, false},
                            {1, 192, 192, 128, true}};
  std::vector<Scheme> schemes = {
      running("FA3", 128, true), running("FA3, tiles of 176", 176, true),           running("FA2", 64, false),
      late("one_pass", {}),      late("exact_peaks", {.remedy = Remedy::new_base}),
  };
  std::mt19937_64 stream(11);
  for (const std::string& kind : kKinds) {
    for (const ShapeOf& shape : shapes) {
      std::vector<std::vector<double>> ratios(schemes.size());
      for (int trial = 0; trial < trials; ++trial) {
        std::vector<Error> errors(schemes.size());
        Error legal;
        for (int head = 0; head < shape.heads; ++head) {
          Head h(shape.S_q, shape.S_kv, shape.D, shape.causal);
          draw(kind, h, stream);
          const Exact e = exact_rows(h, 0, h.S_q, true);
          Out out(h.S_q * h.D);
          for (int first = 0; first < h.S_q; first += 64) {
            std::vector<Row32> s;
            for (int i = first; i < first + 64; ++i) s.push_back(logits(h, i));
            Treated ignored;
            for (std::size_t c = 0; c < schemes.size(); ++c) {
              schemes[c].run(h, s, first, out, ignored);
              add_errors(errors[c], out, e.exact, h, first, 64);
            }
          }
          add_errors(legal, e.legal, e.exact, h, 0, h.S_q);
        }
        for (std::size_t c = 0; c < schemes.size(); ++c) ratios[c].push_back(errors[c].rms() / legal.rms());
      }
      std::printf("%-18s %d x %d x %d%s:", kind.c_str(), shape.S_q, shape.S_kv, shape.D,
                  shape.causal ? " causal" : "");
      for (std::size_t c = 0; c < schemes.size(); ++c) {
        std::sort(ratios[c].begin(), ratios[c].end());
        std::printf("  %s %.3f [%.3f-%.3f]", schemes[c].name.c_str(), ratios[c][trials / 2],
                    ratios[c].front(), ratios[c].back());
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** args) {
  if (count >= 2 && std::string(args[1]) == "long") return long_rows();
  if (count >= 2 && std::string(args[1]) == "stress") return stress(count > 2 ? std::atoi(args[2]) : 20);
  std::fprintf(stderr, "usage: rounding long | stress TRIALS\n");
  return 2;
}
