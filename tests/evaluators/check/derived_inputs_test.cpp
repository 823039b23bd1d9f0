// SPDX-License-Identifier: Apache-2.0
// Inputs that the task's derive_row computes from others: they follow from the values that a run has,
// whatever filled those, and are kept for some measurements.
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "evaluators/check/oracle.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/timing_stock.hpp"
#include "support/contains.hpp"
#include "support/places.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::words;
namespace fs = std::filesystem;

namespace {

const std::string kRow = R"(#include "cultivar_reference.hpp"
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  for (std::int64_t c = 0; c < C; ++c) out[c] = args.tensor("x")[row * C + c] * args.tensor("w")[c] / args.tensor("most")[row];
}
)";
const std::string kDerives = R"(
extern "C" void derive_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  out[0] = 0;  // most, then three: the order of task.yaml
  for (std::int64_t c = 0; c < C; ++c) {
    const double x = args.tensor("x")[row * C + c];
    out[1 + c] = 3 * x;
    if (x > out[0]) out[0] = x;
  }
}
)";

// y = x * w / most, where `three` is 3 x and `most` is the greatest element of a row.
struct OwnTask {
  fs::path folder = fs::temp_directory_path() / ("cultivar-derived-" + std::to_string(::getpid()));
  Task task;
  Workload workload;
  OwnTask() {
    fs::create_directories(folder);
    std::ofstream(folder / "task.yaml") << R"(name: scaled
summary: "y = x * w / most"
dimensions: {R: {about: "rows"}, C: {about: "columns"}}
dtypes: [bf16]
tensors:
  x: {role: input, shape: [R, C], fill: {kind: uniform, a: 1, b: 2}}
  most: {role: input, shape: [R], dtype: f32}
  w: {role: input, shape: [C], fill: {kind: normal}}
  three: {role: input, shape: [C, R]}
  y: {role: output, shape: [R, C]}
rows: [R]
derived: {inputs: [three, most], from: [x], rows: [R]}
cost: {flops: "R * C", bytes: "4 * R * C", report: bytes}
checks:
  smoke: [{R: 4, C: 8}]
  sweep: [{R: 30, C: 50}]
  stress_shapes: [{R: 4, C: 8}]
  stress: {flat: {about: "all equal", x: {kind: constant, a: 5}}}
workload_sets:
  cpu_quick: {about: "one", dtype: bf16, workloads: [{R: 64, C: 128}]}
)";
    write(kRow + kDerives);
    task = load_task(folder);
    workload = task.workloads("cpu_quick")->workloads.front();
  }
  ~OwnTask() { fs::remove_all(folder); }
  void write(const std::string& reference) { std::ofstream(folder / "reference.cpp") << reference; }
  TaskReference library() const {
    auto built = open_reference(task, folder / "cache");
    BOOST_REQUIRE_MESSAGE(built, words(built));
    return *std::move(built);
  }
  // Inputs 0 to 3: x, most, w, three.
  void check(const InputView& inputs) const {
    const auto R = static_cast<std::size_t>(workload.values.at("R")),
               C = static_cast<std::size_t>(workload.values.at("C"));
    for (std::size_t r = 0; r < R; ++r) {
      double most = 0;
      for (std::size_t c = 0; c < C; ++c) {
        const double x = inputs.values[0][r * C + c];
        most = std::max(most, x);
        BOOST_TEST_REQUIRE(inputs.values[3][c * R + r] == round_to(Dtype::bf16, 3 * x));
      }
      BOOST_TEST_REQUIRE(inputs.values[1][r] == most);
    }
    std::vector<double> stored(R);
    decode(Dtype::f32, std::span(inputs.stored[1], 4 * R), stored);
    BOOST_TEST(std::equal(stored.begin(), stored.end(), inputs.values[1]));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(derived_inputs, OwnTask)

BOOST_AUTO_TEST_CASE(they_follow_from_filled_stressed_and_mixed_values) {
  const TaskReference oracle = library();
  check(make_inputs(&oracle, task, workload, 1).view());
  const Inputs flat = make_inputs(&oracle, task, workload, 1, task.stress.front().fills);
  check(flat.view());
  BOOST_TEST(flat.values[1][0] == 5);
  for (std::uint64_t mixture = 0; mixture < 20; ++mixture) {
    const Inputs mixed = make_inputs(&oracle, task, workload, 1, {}, mixture);
    BOOST_TEST((!contains(mixed.mixture, "most[") && !contains(mixed.mixture, "three[")), mixed.mixture);
    check(mixed.view());
  }
  BOOST_CHECK_THROW(make_inputs(nullptr, task, workload, 1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_reference_that_does_not_compute_them_is_refused) {
  write(kRow);
  const auto built = open_reference(task, folder / "cache");
  BOOST_REQUIRE(!built);
  BOOST_TEST(contains(built.error().message, "does not define extern \"C\" void derive_row"),
             built.error().message);
}

BOOST_AUTO_TEST_CASE(timed_runs_share_them_but_have_new_values_of_the_other_inputs) {
  const TaskReference oracle = library();
  TimingStock stock;
  const auto x_of = [&](const InputPool& pool) {
    const std::span<const std::byte> bytes = pool.inputs()[0].bytes;
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  std::vector<std::byte> first, w;
  int shared = 0;
  for (std::uint64_t measurement = 0; measurement < 17; ++measurement) {
    const auto kept = kept_inputs(stock, oracle, task, workload, measurement);
    InputPool windows(task, workload, measurement, stock.stretches, kept);
    InputPool drawn(task, workload, measurement, stock.inputs, kept);
    for (InputPool* const pool : {&windows, &drawn})
      for (int run = 0; run < 2; ++run) {
        pool->next();
        check(pool->view());
        if (first.empty()) first = x_of(*pool);
        if (measurement < 16) BOOST_TEST((x_of(*pool) == first));
        shared += x_of(*pool) == first;
        const std::span<const std::byte> other = pool->inputs()[2].bytes;
        BOOST_TEST(!std::equal(other.begin(), other.end(), w.begin(), w.end()));
        w.assign(other.begin(), other.end());
      }
  }
  BOOST_TEST(shared == 4 * 16);
  BOOST_CHECK_THROW(InputPool(task, workload, 1, stock.inputs), std::logic_error);
}

BOOST_AUTO_TEST_CASE(those_of_attention_backward_are_the_results_of_attention_forward) {
  const fs::path tasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";
  const Task forward = load_task(tasks / "attention_forward"),
             backward = load_task(tasks / "attention_backward");
  const auto exact = open_reference(forward, testing::tests_cache()),
             derives = open_reference(backward, testing::tests_cache());
  BOOST_REQUIRE_MESSAGE((exact && derives), words(exact) + words(derives));
  std::vector<std::map<std::string, Fill>> fills{{}};
  for (const StressCase& stress : backward.stress) fills.push_back(stress.fills);
  for (std::size_t i = 0; i < backward.sweep.size(); ++i) {
    Workload shape = backward.sweep[i];
    shape.dtype = Dtype::f32;
    const auto& fill = fills[i % fills.size()];
    const Inputs inputs = make_inputs(&*derives, backward, shape, 3 + i, fill);
    shape.values["window"] = shape.values["softcap"] = 0;  // of the forward pass only
    const RowLayout layout(forward, shape);
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < layout.rows(); row += 5) rows.push_back(row);
    const auto H = static_cast<std::int64_t>(shape.values.at("H")),
               S = static_cast<std::int64_t>(shape.values.at("S_q")),
               D = static_cast<std::int64_t>(shape.values.at("D"));
    const std::vector<double> results =
        Oracle(*exact, forward, shape, 2).rows(exact->exact(), {std::span(inputs.values).first(3)}, rows);
    double greatest = 1.0, worst = 0.0, logits = 0.0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double* const expected = results.data() + static_cast<std::ptrdiff_t>(r) * (D + 1);
      for (std::int64_t d = 0; d < D; ++d) {
        greatest = std::max(greatest, std::abs(expected[d]));
        worst = std::max(worst, std::abs(expected[d] - inputs.values[3][rows[r] * D + d]));
      }
      const std::int64_t h = rows[r] % H, q = rows[r] / H % S, b = rows[r] / H / S;
      if (std::isfinite(expected[D])) logits = std::max(logits, std::abs(expected[D]));
      const double lse = inputs.values[4][(b * H + h) * S + q];
      BOOST_TEST((lse == expected[D] || std::abs(lse - expected[D]) < 1e-5 + 1e-6 * std::abs(lse)),
                 shape.name << ": " << lse << " is not " << expected[D]);
    }
    // A weight is as wrong as its logit in f32.
    BOOST_TEST(worst < (2e-5 + 2e-6 * logits) * greatest, shape.name << ": " << worst);
  }
}

BOOST_AUTO_TEST_SUITE_END()
