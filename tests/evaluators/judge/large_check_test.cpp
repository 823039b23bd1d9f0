// SPDX-License-Identifier: Apache-2.0
// Kernels whose offsets wrap around beyond 2^31 elements.
// runs alone
// long: 30 s, evaluators/judge, evaluators/devices/cpu
#include "evaluators/judge/large_check.hpp"
#include "evaluators/check/oracle.hpp"

#include <boost/test/unit_test.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "support/contains.hpp"
#include "support/cpu_kernels.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::words;

namespace {

constexpr std::int64_t kTwoTo31 = std::int64_t{1} << 31;

const TaskReference& oracle_of(const Task& task) {
  static std::map<std::string, TaskReference> known;
  const auto found = known.find(task.name);
  if (found != known.end()) return found->second;
  auto library = open_reference(task, cpu_test::cache_folder);
  BOOST_REQUIRE_MESSAGE(library, words(library));
  return known.emplace(task.name, *library).first->second;
}

Compiled compiled_of(const Task& task, const std::string& source) {
  auto variant = make_variant(source, task);
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().text()));
  Compiled compiled{*variant, {}};
  auto binary = cpu_test::compiler().compile(*variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().diagnostics));
  compiled.binaries.push_back(std::move(*binary));
  auto overflow = cpu_test::compiler().compile_overflow_build(*variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(overflow, words(overflow));
  compiled.overflow_builds.push_back(std::move(*overflow));
  return compiled;
}

// A softmax that computes where a row lies in this way, the last row first.
std::string rows_by(const std::string& offset, const std::string& requires_ = "dtype == f32") {
  return R"(/*--- cultivar
name: rows
task: softmax
target: cpu
requires: ")" +
         requires_ + R"("
launch:
  - kernel: rows
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/
#include <cmath>
#include <cstddef>
extern "C" void rows(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = R - 1 - thread; r >= 0; r -= threads) {
    const float* in = x + )" +
         offset + R"(;
    float* out = y + )" +
         offset + R"(;
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < C; ++c) top = in[c] > top ? in[c] : top;
    for (int c = 0; c < C; ++c) out[c] = std::exp(in[c] - top), sum += out[c];
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
)";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(large_check)

BOOST_AUTO_TEST_CASE(a_shape_beyond_32_bits_repeats_whole_pages_of_independent_rows) {
  const Task& task = cpu_test::softmax();
  const Compiled kernel = compiled_of(task, rows_by("static_cast<std::ptrdiff_t>(r) * C"));
  const auto shape = large_shape(task, oracle_of(task), kernel, cpu_test::device().facts(), 4096, 8e10);
  BOOST_REQUIRE(shape.has_value());
  BOOST_TEST(shape->dimension == "R");
  BOOST_TEST(shape->elements > kTwoTo31);
  const double rows = shape->workload.values.at("R"), columns = shape->workload.values.at("C");
  BOOST_TEST(static_cast<double>(shape->elements) == rows * columns);
  BOOST_TEST(rows == static_cast<double>(shape->period * shape->repeats + shape->tail));
  BOOST_TEST(static_cast<double>(shape->period * shape->repeats) * columns > static_cast<double>(kTwoTo31));
  BOOST_TEST(shape->distinct.values.at("R") == static_cast<double>(shape->period + shape->tail));
  const auto repetitions = repetitions_of(task, *shape);
  BOOST_REQUIRE(repetitions.size() == 2u);
  for (const Repetition& each : repetitions) {
    BOOST_TEST(each.period % 4096 == 0u);
    BOOST_TEST(static_cast<double>(each.period) == 4.0 * columns * static_cast<double>(shape->period));
    BOOST_TEST(each.period <= std::uint64_t{192} << 20);
  }
}

BOOST_AUTO_TEST_CASE(what_a_variant_does_not_claim_or_what_costs_too_much_is_not_checked) {
  const Task& task = cpu_test::softmax();
  const auto shape_of = [&](const Compiled& kernel, double most) {
    return large_shape(task, oracle_of(task), kernel, cpu_test::device().facts(), 4096, most);
  };
  BOOST_TEST(
      !shape_of(compiled_of(task,
                            rows_by("static_cast<int>(static_cast<unsigned>(r) * static_cast<unsigned>(C))")),
                1e9)
           .has_value());
  BOOST_TEST(
      !shape_of(compiled_of(task, rows_by("r * C", "dtype == f32 && R * C < 2147483648")), 8e10).has_value());
}

// A copy of softmax whose rows are multiplied by `factor`, an expression of their number.
Task softmax_times(const std::string& name, const std::string& factor) {
  const std::filesystem::path folder = cpu_test::cache_folder / "large_check" / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::filesystem::path original = cpu_test::softmax().folder;
  std::filesystem::copy_file(original / "task.yaml", folder / "task.yaml");
  std::ifstream in(original / "reference.cpp");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string call = "divide(out, r.C, reference_sum(out, r.C));";
  const std::size_t at = text.find(call);
  BOOST_REQUIRE(at != std::string::npos);
  std::ofstream(folder / "reference.cpp")
      << text.replace(at, call.size(), "divide(out, r.C, reference_sum(out, r.C) / (" + factor + "));");
  return load_task(folder);
}

BOOST_AUTO_TEST_CASE(rows_that_depend_on_their_place_or_number_do_not_repeat) {
  const std::string source = rows_by("static_cast<std::ptrdiff_t>(r) * C");
  const auto has_shape = [&](const std::string& factor, bool expected) {
    const Task task = softmax_times("times", factor);
    const auto library = open_reference(task, cpu_test::cache_folder);
    BOOST_REQUIRE_MESSAGE(library, words(library));
    const Compiled kernel = compiled_of(task, source);
    BOOST_TEST(
        large_shape(task, *library, kernel, cpu_test::device().facts(), 4096, 8e10).has_value() == expected,
        factor);
  };
  has_shape("2.0", true);
  has_shape("row + 1.0", false);
  has_shape("double(args.integer(\"R\"))", false);
}

BOOST_AUTO_TEST_CASE(offsets_of_32_bits_are_refused_and_of_64_are_right) {
  const Task& task = cpu_test::softmax();
  const CascadeSite site{cpu_test::device(), task, oracle_of(task)};
  const LargeCheck wraps = check_large(
      site,
      compiled_of(task, rows_by("static_cast<int>(static_cast<unsigned>(r) * static_cast<unsigned>(C))")), 7);
  BOOST_REQUIRE(wraps.wrong.has_value());
  BOOST_TEST(contains(wraps.wrong->reason, "crashed on R"), wraps.wrong->reason);
  BOOST_TEST(contains(wraps.wrong->reason, "elements: 2^31 + "), wraps.wrong->reason);
  BOOST_TEST(contains(wraps.wrong->diagnostics, "compute offsets, and shares of threads, in 64 bits"),
             wraps.wrong->diagnostics);
  BOOST_TEST(wraps.elements == 0);

  // Nothing faults, but the last rows are never written.
  const LargeCheck stops =
      check_large(site,
                  compiled_of(task, rows_by("(static_cast<std::ptrdiff_t>(r) * C > 2147483647 ? 0 : "
                                            "static_cast<std::ptrdiff_t>(r) * C)")),
                  7);
  // Nothing is said of a kernel that a busy machine does not let finish.
  if (stops.wrong) {
    BOOST_TEST((contains(stops.wrong->reason, "wrong result on R") ||
                contains(stops.wrong->reason, "not written on R")),
               stops.wrong->reason);
  }
  BOOST_TEST(stops.elements == 0);

  const LargeCheck right =
      check_large(site, compiled_of(task, rows_by("static_cast<std::ptrdiff_t>(r) * C")), 7);
  BOOST_TEST(!right.wrong.has_value(), (right.wrong ? right.wrong->reason + right.wrong->diagnostics : ""));
  if (right.elements != 0) BOOST_TEST(right.elements > kTwoTo31);
}

// Compilers may compute such an offset in 64 bits, or not.
BOOST_AUTO_TEST_CASE(an_overflow_of_signed_integers_ends_the_run) {
  const Task& task = cpu_test::softmax();
  const LargeCheck wraps =
      check_large({cpu_test::device(), task, oracle_of(task)}, compiled_of(task, rows_by("r * C")), 7);
  BOOST_REQUIRE(wraps.wrong.has_value());
  BOOST_TEST(contains(wraps.wrong->reason, "crashed on R"), wraps.wrong->reason);
  BOOST_TEST(contains(wraps.wrong->diagnostics, "an overflow of signed integers is an illegal instruction"),
             wraps.wrong->diagnostics);
}

// Right with the two threads of a small machine.
BOOST_AUTO_TEST_CASE(shares_of_many_threads_are_computed_too) {
  std::string source = rows_by("static_cast<std::ptrdiff_t>(r) * C");
  const std::string loop = "for (int r = R - 1 - thread; r >= 0; r -= threads) {";
  const std::size_t at = source.find(loop);
  BOOST_REQUIRE(at != std::string::npos);
  source.replace(at, loop.size(),
                 "const int eighths = R * (C / 8);\n"
                 "  const int last = static_cast<int>(thread + 1 == threads ? R : eighths * (thread + 1) / "
                 "threads / (C / 8));\n"
                 "  for (int r = eighths * thread / threads / (C / 8); r < last; ++r) {");
  const Task& task = cpu_test::softmax();
  const LargeCheck wraps =
      check_large({cpu_test::device(), task, oracle_of(task)}, compiled_of(task, source), 7);
  BOOST_REQUIRE(wraps.wrong.has_value());
  BOOST_TEST(contains(wraps.wrong->reason, "crashed on R"), wraps.wrong->reason);
}

// No tensor has queries and keys together, so none ends where their product does.
BOOST_AUTO_TEST_CASE(products_of_dimensions_beyond_32_bits_are_run) {
  const Task task = load_task(std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/attention_forward");
  std::ifstream in(task.folder / "seeds/naive.cpp");
  const std::string right((std::istreambuf_iterator<char>(in)), {});
  const std::string begin = "  float* row_logits =";
  std::string wraps = right;
  BOOST_REQUIRE(wraps.find(begin) != std::string::npos);
  wraps.insert(wraps.find(begin), "  volatile int pairs = S_q * S_kv;\n  (void)pairs;\n");
  const CascadeSite site{cpu_test::device(), task, oracle_of(task)};
  BOOST_TEST(!check_products(site, compiled_of(task, right), 3).has_value());
  const auto refused = check_products(site, compiled_of(task, wraps), 3);
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST(contains(refused->diagnostics, "S_q x S_kv is more than 32 bits hold"), refused->diagnostics);
}

// To derive these inputs takes the oracle minutes where heads are as long as a kernel requires.
BOOST_AUTO_TEST_CASE(products_are_run_without_inputs_that_take_minutes_to_derive) {
  const Task task =
      load_task(std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/attention_backward");
  std::ifstream in(task.folder / "seeds/naive.cpp");
  std::string right((std::istreambuf_iterator<char>(in)), {});
  const std::string requires_ = "requires: \"dtype == f32";
  BOOST_REQUIRE(right.find(requires_) != std::string::npos);
  right.insert(right.find(requires_) + requires_.size(), " && D % 64 == 0");
  const std::string begin = "  const Index rows =";
  std::string wraps = right;
  BOOST_REQUIRE(wraps.find(begin) != std::string::npos);
  wraps.insert(wraps.find(begin), "  volatile int pairs = S_q * S_kv;\n  (void)pairs;\n");
  const CascadeSite site{cpu_test::device(), task, oracle_of(task)};
  const Compiled kernel = compiled_of(task, right);
  const std::clock_t start = std::clock();  // of this process: the kernel has its own
  BOOST_TEST(!check_products(site, kernel, 3).has_value());
  BOOST_TEST(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 20.0);
  const auto refused = check_products(site, compiled_of(task, wraps), 3);
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST(contains(refused->diagnostics, "S_q x S_kv is more than 32 bits hold"), refused->diagnostics);
}

// Two of them are always within a tensor, which ends before their product does.
BOOST_AUTO_TEST_CASE(products_of_three_dimensions_are_run_in_memory_that_repeats) {
  const Task task = load_task(std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/matmul");
  const auto source = [](const std::string& steps) {
    return R"(/*--- cultivar
name: products
task: matmul
target: cpu
requires: "dtype == f32"
launch:
  - kernel: products
    threads: num_cores
    args: [a, b, c, M, N, K, thread, threads]
---*/
#include <cstddef>
extern "C" void products(const float* a, const float* b, float* c, int M, int N, int K, int thread, int threads) {
  using Steps = )" +
           steps +
           R"(;
  volatile Steps steps = static_cast<Steps>((M + 7) / 8) * ((N + 15) / 16) * ((K + 7) / 8);
  (void)steps;
  for (std::ptrdiff_t m = thread; m < M; m += threads)
    for (std::ptrdiff_t n = 0; n < N; ++n) {
      float sum = 0.0f;
      for (std::ptrdiff_t k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
      c[m * N + n] = sum;
    }
}
)";
  };
  const std::string right = source("long long"), wraps = source("int");
  const CascadeSite site{cpu_test::device(), task, oracle_of(task)};
  BOOST_TEST(!check_products(site, compiled_of(task, right), 3).has_value());
  const auto refused = check_products(site, compiled_of(task, wraps), 3);
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST(contains(refused->diagnostics, "M x N x K is more than 32 bits hold"), refused->diagnostics);
}

BOOST_AUTO_TEST_SUITE_END()
