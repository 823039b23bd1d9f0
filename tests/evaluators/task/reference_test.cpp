// SPDX-License-Identifier: Apache-2.0
// The oracles of the tasks against computations that share nothing with them.
#include <dlfcn.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "evaluators/references/cultivar_reference.hpp"
#include "evaluators/task/task.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

using RowFunction = void (*)(const ReferenceArgs&, std::int64_t, double*);
double round_bf16(double x) {
  return round_to(Dtype::bf16, x);
}
double round_f32(double x) {
  return round_to(Dtype::f32, x);
}

class Reference {
 public:
  explicit Reference(const std::string& name)
      : task(load_task(fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks" / name)),
        library_(fs::temp_directory_path() / ("cultivar_" + name + std::to_string(::getpid()) + ".so")) {
    const std::string command =
        "g++ -std=c++20 -O2 -Wall -Wextra -Werror -shared -fPIC -I " CULTIVAR_SOURCE_DIR
        "/evaluators/references -o " +
        library_.string() + " " + (task.folder / "reference.cpp").string();
    BOOST_REQUIRE(std::system(command.c_str()) == 0);
    handle_ = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
    BOOST_REQUIRE_MESSAGE(handle_ != nullptr, dlerror());
  }
  ~Reference() {
    dlclose(handle_);
    fs::remove(library_);
  }
  Reference(const Reference&) = delete;
  RowFunction operator[](const std::string& name) const {
    const auto f = reinterpret_cast<RowFunction>(dlsym(handle_, name.c_str()));
    BOOST_REQUIRE_MESSAGE(f != nullptr, name);
    return f;
  }
  const Task task;

 private:
  fs::path library_;
  void* handle_ = nullptr;
};

// One workload's inputs, as a reference sees them.
struct Case {
  Case(const Task& t, const Workload& w, std::uint64_t seed, const std::map<std::string, Fill>& fills = {})
      : bindings(t.bindings(w)) {
    for (const TensorSpec& spec : t.tensors) {
      if (spec.role != Role::input) continue;
      shapes.push_back(t.shape(spec, w));
      std::vector<std::byte> bytes(t.bytes_of(spec, w));
      const auto stress = fills.find(spec.name);
      const Dtype dtype = t.dtype(spec, w);
      fill_tensor(t.fill(stress == fills.end() ? spec.fill : stress->second, w), seed++, shapes.back(), dtype,
                  bytes);
      values.emplace_back(bytes.size() / size_of(dtype));
      decode(dtype, bytes, values.back());
      names.push_back(spec.name);
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      tensors.push_back(
          {names[i].c_str(), values[i].data(), shapes[i].data(), static_cast<int>(shapes[i].size())});
    for (const auto& [name, value] : bindings) numbers.push_back({name.c_str(), value});
    args = {tensors.data(), static_cast<int>(tensors.size()), numbers.data(),
            static_cast<int>(numbers.size()), w.dtype == Dtype::bf16 ? round_bf16 : round_f32};
  }
  Case(const Case&) = delete;

  Bindings bindings;
  std::vector<std::string> names;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<ReferenceTensor> tensors;
  std::vector<ReferenceNumber> numbers;
  ReferenceArgs args{};
};

// Textbook attention in long double with full index arithmetic: D elements of o, then lse.
std::vector<double> naive_attention(const Case& c, std::int64_t b, std::int64_t i, std::int64_t h) {
  const auto n = [&](const char* name) { return static_cast<std::int64_t>(c.bindings.at(name)); };
  const std::int64_t H = n("H"), Hk = n("H_kv"), Sq = n("S_q"), Sk = n("S_kv"), D = n("D");
  const auto at = [&](int t, std::int64_t s, std::int64_t head, std::int64_t d, std::int64_t S,
                      std::int64_t heads) {
    return static_cast<long double>(c.values[static_cast<std::size_t>(t)]
                                            [static_cast<std::size_t>(((b * S + s) * heads + head) * D + d)]);
  };
  const auto scale = static_cast<long double>(static_cast<float>(c.bindings.at("scale")));
  std::vector<long double> o(static_cast<std::size_t>(D), 0), logits;
  std::vector<std::int64_t> seen;
  const std::int64_t window = c.bindings.contains("window") ? n("window") : 0;
  const double softcap = c.bindings.contains("softcap") ? c.bindings.at("softcap") : 0.0;
  for (std::int64_t j = 0; j < Sk; ++j) {
    if (c.bindings.at("causal") != 0 && j > i + Sk - Sq) continue;
    if (window != 0 && std::abs(i + Sk - Sq - j) >= window) continue;
    long double dot = 0;
    for (std::int64_t d = 0; d < D; ++d) dot += at(0, i, h, d, Sq, H) * at(1, j, h / (H / Hk), d, Sk, Hk);
    logits.push_back(softcap != 0 ? softcap * std::tanh(dot * scale / softcap) : dot * scale);
    seen.push_back(j);
  }
  std::vector<double> out(static_cast<std::size_t>(D) + 1, 0.0);
  out.back() = -std::numeric_limits<double>::infinity();
  if (seen.empty()) return out;
  long double top = logits[0], sum = 0;
  for (const long double x : logits) top = std::max(top, x);
  for (std::size_t k = 0; k < seen.size(); ++k) {
    const long double weight = std::exp(logits[k] - top);
    sum += weight;
    for (std::int64_t d = 0; d < D; ++d)
      o[static_cast<std::size_t>(d)] += weight * at(2, seen[k], h / (H / Hk), d, Sk, Hk);
  }
  for (std::size_t d = 0; d < o.size(); ++d) out[d] = static_cast<double>(o[d] / sum);
  out.back() = static_cast<double>(top + std::log(sum));
  return out;
}

Workload shaped(const Task& task, Dtype dtype, std::map<std::string, double> values) {
  Workload w{"test", dtype, {}};
  for (const auto& [name, value] : values) w.values[name] = value;
  for (const Dimension& d : task.dimensions)
    if (!w.values.contains(d.name)) w.values[d.name] = d.fallback->evaluate(w.values).value();
  for (const Parameter& p : task.parameters)
    if (!w.values.contains(p.name)) w.values[p.name] = p.fallback->evaluate(w.values).value();
  return w;
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    worst = std::max(worst, std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : 1e300);
  }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reference)

BOOST_AUTO_TEST_CASE(attention_rows_are_those_of_a_naive_computation) {
  const Reference reference("attention_forward");
  const std::vector<std::map<std::string, double>> shapes{
      {{"B", 2}, {"H", 4}, {"H_kv", 2}, {"S_q", 5}, {"S_kv", 9}, {"D", 12}},
      {{"B", 2}, {"H", 4}, {"H_kv", 1}, {"S_q", 5}, {"S_kv", 9}, {"D", 16}, {"causal", 1}},
      {{"B", 1}, {"H", 3}, {"S_q", 9}, {"S_kv", 4}, {"D", 8}, {"causal", 1}},
      {{"B", 1}, {"H", 2}, {"S_q", 130}, {"D", 64}, {"causal", 1}, {"scale", 0.3}},
      {{"B", 1}, {"H", 2}, {"S_q", 70}, {"D", 16}, {"causal", 1}, {"window", 37}},
      {{"B", 1}, {"H", 1}, {"S_q", 9}, {"S_kv", 4}, {"D", 8}, {"window", 2}},
      {{"B", 1}, {"H", 2}, {"S_q", 5}, {"S_kv", 90}, {"D", 16}, {"window", 8}, {"softcap", 1.5}}};
  int hidden = 0;
  for (const auto& values : shapes)
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      const Workload w = shaped(reference.task, dtype, values);
      const Case c(reference.task, w, 77);
      const auto H = static_cast<std::int64_t>(w.values.at("H")),
                 S = static_cast<std::int64_t>(w.values.at("S_q"));
      const double eps = epsilon_of(dtype);
      std::vector<double> exact(static_cast<std::size_t>(w.values.at("D")) + 1), rounded(exact.size());
      for (std::int64_t row = 0; row < reference.task.row_count(w); ++row) {
        const auto expected = naive_attention(c, row / H / S, row / H % S, row % H);
        reference["reference_row"](c.args, row, exact.data());
        BOOST_TEST(worst_difference(exact, expected) < 1e-12);
        reference["reference_row_rounded"](c.args, row, rounded.data());
        BOOST_TEST(worst_difference(rounded, expected) < 8 * eps + 1e-5);
        hidden += std::isinf(expected.back());
        for (std::size_t d = 0; d + 1 < rounded.size(); ++d)
          BOOST_TEST(round_to(dtype, rounded[d]) == rounded[d]);
      }
    }
  // S_q 9, S_kv 4: five queries of three heads see nothing, and four with the window; for two dtypes.
  BOOST_TEST(hidden == 2 * (3 * 5 + 4));
}

BOOST_AUTO_TEST_CASE(paged_attention_is_attention_on_the_keys_that_the_table_names) {
  const Reference reference("attention_paged");
  const Reference plain("attention_forward");
  for (const double causal : {0.0, 1.0}) {
    const Workload w = shaped(
        reference.task, Dtype::bf16,
        {{"B", 3}, {"H", 4}, {"H_kv", 2}, {"S_q", 20}, {"M", 3}, {"PAGE", 16}, {"D", 8}, {"causal", causal}});
    const StressCase& lengths = reference.task.stress.front();
    BOOST_TEST(lengths.name == "any_lengths");
    const Case c(reference.task, w, 5, lengths.fills);
    const std::size_t line = 2 * 8, N = 12;
    BOOST_TEST(c.values[1].size() == N * 16 * line);
    for (std::size_t b = 0; b < 3; ++b) {
      const double length = c.values[4][b];
      const Workload gathered = shaped(
          plain.task, Dtype::bf16,
          {{"B", 1}, {"H", 4}, {"H_kv", 2}, {"S_q", 20}, {"S_kv", length}, {"D", 8}, {"causal", causal}});
      Case own(plain.task, gathered, 1);
      std::copy_n(&c.values[0][b * 20 * 4 * 8], 20 * 4 * 8, own.values[0].begin());
      for (std::size_t j = 0; j < static_cast<std::size_t>(length); ++j)
        for (const std::size_t t : {1, 2}) {
          const auto page = static_cast<std::size_t>(c.values[3][b * 3 + j / 16]);
          std::copy_n(&c.values[t][(page * 16 + j % 16) * line], line, &own.values[t][j * line]);
        }
      std::vector<double> got(9), expected(9);
      for (std::int64_t row = 0; row < 20 * 4; ++row) {
        reference["reference_row"](c.args, static_cast<std::int64_t>(b) * 20 * 4 + row, got.data());
        plain["reference_row"](own.args, row, expected.data());
        BOOST_TEST(worst_difference(got, expected) == 0.0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_attention_are_what_small_changes_of_its_inputs_give) {
  const Reference reference("attention_backward");
  for (const auto& values : std::vector<std::map<std::string, double>>{
           {{"B", 2}, {"H", 4}, {"H_kv", 2}, {"S_q", 5}, {"S_kv", 7}, {"D", 6}},
           {{"B", 1}, {"H", 4}, {"H_kv", 2}, {"S_q", 7}, {"S_kv", 4}, {"D", 4}, {"causal", 1}},
           {{"B", 1}, {"H", 3}, {"S_q", 4}, {"S_kv", 9}, {"D", 5}, {"causal", 1}, {"scale", 0.7}}}) {
    const Workload w = shaped(reference.task, Dtype::f32, values);
    Case c(reference.task, w, 21);  // q, k, v, o, lse, do
    const auto n = [&](const char* name) { return static_cast<std::int64_t>(w.values.at(name)); };
    const std::int64_t H = n("H"), H_kv = n("H_kv"), S_q = n("S_q"), S_kv = n("S_kv"), D = n("D");
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const auto each_query = [&](const auto& use) {
      for (std::int64_t row = 0; row < reference.task.row_count(w); ++row) {
        const std::int64_t h = row % H, i = row / H % S_q, b = row / H / S_q;
        use(row, (b * H + h) * S_q + i, naive_attention(c, b, i, h));
      }
    };
    each_query([&](std::int64_t row, std::int64_t lse, const std::vector<double>& result) {
      std::copy_n(result.begin(), D, c.values[3].begin() + row * D);
      c.values[4][at(lse)] = result.back();
    });
    const auto loss = [&] {  // whose gradient with respect to o is do
      long double sum = 0;
      each_query([&](std::int64_t row, std::int64_t, const std::vector<double>& result) {
        for (std::int64_t d = 0; d < D; ++d)
          sum += static_cast<long double>(result[at(d)]) * c.values[5][at(row * D + d)];
      });
      return sum;
    };
    const auto slope = [&](std::size_t tensor, std::int64_t element) {
      double& x = c.values[tensor][at(element)];
      const double before = x, step = 1e-4;
      x = before + step;
      const long double above = loss();
      x = before - step;
      const long double below = loss();
      x = before;
      return static_cast<double>((above - below) / (2 * step));
    };
    std::vector<double> out(at(2 * D));
    c.args.output = "dq";
    for (std::int64_t row = 0; row < reference.task.row_count(w); ++row) {
      reference["reference_row"](c.args, row, out.data());
      for (std::int64_t d = 0; d < D; d += 3) BOOST_TEST(std::abs(out[at(d)] - slope(0, row * D + d)) < 1e-6);
    }
    c.args.output = "dk";
    for (std::int64_t row = 0; row < n("B") * S_kv * H_kv; ++row) {
      reference["reference_row"](c.args, row, out.data());
      for (std::int64_t d = 0; d < D; d += 3) {
        BOOST_TEST(std::abs(out[at(d)] - slope(1, row * D + d)) < 1e-6);
        BOOST_TEST(std::abs(out[at(D + d)] - slope(2, row * D + d)) < 1e-6);
      }
      std::vector<double> rounded(out.size());
      reference["reference_row_rounded"](c.args, row, rounded.data());
      BOOST_TEST(worst_difference(out, rounded) < 1e-4);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rounded_attention_differs_from_the_exact_one_in_low_precision) {
  const Reference reference("attention_forward");
  const Workload w = shaped(reference.task, Dtype::bf16, {{"B", 1}, {"H", 1}, {"S_q", 64}, {"D", 64}});
  const Case c(reference.task, w, 3);
  std::vector<double> exact(65), rounded(65);
  reference["reference_row"](c.args, 7, exact.data());
  reference["reference_row_rounded"](c.args, 7, rounded.data());
  BOOST_TEST(worst_difference(exact, rounded) > 1e-5);
}

// Seen on an H200: weights beside another base than the greatest logit gave 9.5e-8 and 1.1e-7.
BOOST_AUTO_TEST_CASE(a_log_sum_that_is_nearly_zero_may_still_be_as_wrong_as_its_f32_sum) {
  const Reference attention("attention_forward");
  const Workload w =
      shaped(attention.task, Dtype::bf16, {{"B", 1}, {"H", 1}, {"S_q", 8}, {"S_kv", 192}, {"D", 128}});
  Fill constant, falling;
  constant.kind = Fill::Kind::constant, constant.a = 1e-3;
  falling.kind = Fill::Kind::rising, falling.a = -1e5, falling.b = 0.25, falling.axis = 1;
  const Case c(attention.task, w, 7, {{"q", constant}, {"k", falling}});
  double exact[129], rounded[129];
  for (std::int64_t row = 0; row < 8; ++row) {
    attention["reference_row"](c.args, row, exact);
    attention["reference_row_rounded"](c.args, row, rounded);
    BOOST_TEST(std::abs(exact[128]) < 0.1);
    BOOST_TEST(std::abs(rounded[128] - exact[128]) > 1e-7);
    BOOST_TEST(std::abs(rounded[128] - exact[128]) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(every_control_is_far_from_the_oracle_where_it_claims_to_be_wrong) {
  for (const char* name : {"attention_forward", "softmax", "matmul"}) {
    const Reference reference(name);
    for (const Control& control : reference.task.controls) {
      double worst = 0.0, legal = 0.0;
      int shapes = 0;
      for (const Workload& w : reference.task.sweep) {
        Workload f32 = w;
        f32.dtype = Dtype::f32;
        if (control.when && control.when->evaluate(reference.task.bindings(f32)).value() == 0.0) continue;
        ++shapes;
        const Case c(reference.task, f32, 5);
        const auto elements = static_cast<std::size_t>(f32.values.contains("D")   ? f32.values.at("D") + 1
                                                       : f32.values.contains("C") ? f32.values.at("C")
                                                                                  : f32.values.at("N"));
        std::vector<double> exact(elements), wrong(elements), rounded(elements);
        double here = 0.0;
        for (std::int64_t row = 0; row < reference.task.row_count(f32); row += 7) {
          reference["reference_row"](c.args, row, exact.data());
          reference["control_" + control.name](c.args, row, wrong.data());
          reference["reference_row_rounded"](c.args, row, rounded.data());
          here = std::max(here, worst_difference(exact, wrong));
          legal = std::max(legal, worst_difference(exact, rounded));
        }
        worst = shapes == 1 ? here : std::min(worst, here);
      }
      BOOST_TEST(shapes > 0, control.name);
      BOOST_TEST(worst > 10 * legal, name << " " << control.name << ": " << worst << " against " << legal);
    }
  }
}

BOOST_AUTO_TEST_CASE(softmax_rows_are_those_of_a_naive_computation) {
  const Reference reference("softmax");
  const Workload w = shaped(reference.task, Dtype::bf16, {{"R", 5}, {"C", 37}});
  const Case c(reference.task, w, 9);
  std::vector<double> exact(37), rounded(37);
  for (std::int64_t row = 0; row < 5; ++row) {
    long double sum = 0;
    for (std::size_t j = 0; j < 37; ++j)
      sum += std::exp(static_cast<long double>(c.values[0][static_cast<std::size_t>(row) * 37 + j]));
    reference["reference_row"](c.args, row, exact.data());
    reference["reference_row_rounded"](c.args, row, rounded.data());
    for (std::size_t j = 0; j < 37; ++j) {
      const auto expected = static_cast<double>(
          std::exp(static_cast<long double>(c.values[0][static_cast<std::size_t>(row) * 37 + j])) / sum);
      BOOST_TEST(std::abs(exact[j] - expected) < 1e-14);
      BOOST_TEST(std::abs(rounded[j] - expected) <= 0x1p-8 * expected + 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_exponential_that_is_computed_several_at_a_time_is_right_to_the_last_places) {
  for (double x = -700.0; x < 709.0; x += 0.0137) {
    const double right = std::exp(x);
    BOOST_TEST_REQUIRE(std::abs(reference_exp(x) - right) <= 4e-16 * right, x);
  }
  for (const double x : {0.0, -0.0, 1.0, -1.0, 709.78, -706.9})
    BOOST_TEST(std::abs(reference_exp(x) - std::exp(x)) <= 4e-16 * std::exp(x), x);
  const double infinity = std::numeric_limits<double>::infinity();
  BOOST_TEST(reference_exp(-infinity) == 0.0);
  BOOST_TEST(reference_exp(-800.0) == 0.0);
  BOOST_TEST(reference_exp(infinity) == infinity);
  BOOST_TEST(reference_exp(710.0) == infinity);
  BOOST_TEST(std::isnan(reference_exp(std::nan(""))));
}

BOOST_AUTO_TEST_CASE(tensor_cores_cut_off_what_lies_below_the_greatest_of_what_they_add) {
  constexpr std::int64_t width = 19;
  const auto added = [&](float before, std::vector<float> factors, const std::vector<double>& values) {
    std::vector<std::vector<double>> lines;
    for (const double value : values) lines.emplace_back(width, value);
    std::vector<const double*> pointers;
    for (const auto& line : lines) pointers.push_back(line.data());
    std::vector<float> sums(width, before);
    reference_tensor_core_add(factors.data(), pointers.data(), static_cast<int>(values.size()), width,
                              sums.data());
    for (const float sum : sums) BOOST_TEST((sum == sums[0] || std::isnan(sum)));
    return sums[0];
  };
  BOOST_TEST(added(0.5f, {2.0f, -3.0f, 1.0f}, {1.5, 0.25, 0.125}) == 2.875f);
  BOOST_TEST(added(0.0f, {0.0f}, {3.0}) == 0.0f);
  // 24 bits of the sum, and two more while it is made.
  BOOST_TEST(added(1.0f, {0x1p-24f, 0x1p-24f}, {1.0, 1.0}) == 1.0f + 0x1p-23f);
  BOOST_TEST(added(1.0f, std::vector(8, 0x1.8p-26f), std::vector(8, 1.0)) == 1.0f);
  BOOST_TEST(added(-1.0f, {0x1.cp-24f}, {-1.0}) == -1.0f);
  // Beyond the range of the arithmetic, and what is no number.
  BOOST_TEST(added(0x1p126f, {0x1p120f}, {2.0}) == 0x1p126f + 0x1p121f);
  BOOST_TEST(std::isnan(added(1.0f, {std::numeric_limits<float>::quiet_NaN()}, {1.0})));
  // Many of one sign: what is cut off adds up to more than half a unit in the last place of f16.
  const std::vector<double> line(width, 0.300048828125);
  const std::vector<const double*> pointers(16, line.data());
  std::vector<float> sums(width, 0.0f), weights(16, 0.012321f);
  for (float& weight : weights) weight = static_cast<float>(round_to(Dtype::f16, weight));
  constexpr int steps = 6198;
  for (int step = 0; step < steps; ++step)
    reference_tensor_core_add(weights.data(), pointers.data(), 16, width, sums.data());
  const double exact = 16.0 * steps * weights[0] * line[0];
  BOOST_TEST(sums[0] < exact * (1.0 - 4e-4));
  BOOST_TEST(sums[0] > exact * (1.0 - 1.2e-3));
}

BOOST_AUTO_TEST_CASE(rounding_many_values_gives_what_rounding_each_gives) {
  std::vector<double> values{
      0.0,        -0.0,       65504.0,      65519.9,      65520.0,
      -1e9,       1e300,      5e-324,       std::nan(""), std::numeric_limits<double>::infinity(),
      0x1.fep127, 0x1.ffp127, -0x1.feffp127};
  for (int exponent = -150; exponent <= 130; ++exponent)
    for (const double fraction : {1.0, 1.0 + 0x1p-8, 1.0 + 0x1.8p-7, 1.0 + 0x1.000001p-8, 1.0 + 0x1p-11,
                                  1.0 + 0x1.8p-10, 1.0 + 0x1p-24, 1.3, 1.99999999})
      for (const double sign : {1.0, -1.0}) values.push_back(sign * std::ldexp(fraction, exponent));
  for (const auto& [dtype, type] : {std::pair{Dtype::bf16, ReferenceType::bf16},
                                    {Dtype::f16, ReferenceType::f16},
                                    {Dtype::f32, ReferenceType::f32},
                                    {Dtype::e4m3, ReferenceType::other}}) {
    ReferenceArgs args{};
    args.round = [](double x) { return round_to(Dtype::e4m3, x); };
    args.rounds_to = type;
    std::vector<double> rounded = values;
    args.round_all(rounded.data(), static_cast<std::int64_t>(rounded.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double right = round_to(dtype, values[i]);
      BOOST_TEST_REQUIRE(
          (std::isnan(right) ? std::isnan(rounded[i])
                             : rounded[i] == right && std::signbit(rounded[i]) == std::signbit(right)),
          name_of(dtype) << " of " << values[i] << ": " << rounded[i] << ", not " << right);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
