// SPDX-License-Identifier: Apache-2.0
// Indices that a reference in PyTorch chooses: another one is right if its fp64 score is within the permitted
// error, and what follows from the indices is compared with what follows from those.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "support/contains.hpp"
#include "support/pytorch.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kRows = 6, kExperts = 5, kChosen = 2;

// Two of five experts for each row, by the products of x and w, and values of v at them.
struct Router {
  fs::path folder = fs::temp_directory_path() / ("cultivar-python-indices-" + std::to_string(::getpid()));
  Task task = load(
      "    experts = torch.topk(x @ w.t(), 2).indices\n    return v.gather(1, experts), "
      "experts.to(torch.int32)");
  std::optional<TaskReference> library;  // of `task`
  Workload workload;
  std::vector<std::int64_t> rows = std::vector<std::int64_t>(kRows);

  Router() {
    workload.name = "w";
    workload.values = {{"N", kRows}, {"C", 8.0}, {"E", kExperts}};
    std::iota(rows.begin(), rows.end(), 0);
  }
  ~Router() { fs::remove_all(folder); }

  Task load(const std::string& body) const {
    fs::create_directories(folder / "router");
    std::ofstream(folder / "router/task.yaml") << R"(name: router
summary: "two experts of each row and their values"
dimensions: {N: {about: rows}, C: {about: channels}, E: {about: experts}}
dtypes: [f32]
tensors:
  x: {role: input, shape: [N, C]}
  w: {role: input, shape: [E, C]}
  v: {role: input, shape: [N, E]}
  values: {role: output, shape: [N, 2]}
  experts: {role: output, shape: [N, 2], dtype: i32}
rows: [N]
cost: {bytes: "4 * N * C", report: bytes, flops: "2 * N * C * E"}
checks: {smoke: [{N: 2, C: 8, E: 5}], sweep: [{N: 3, C: 8, E: 5}], edge: [{N: 1, C: 8, E: 5}], stress_shapes: [{N: 2, C: 8, E: 5}], stress: {equal: {about: all equal, w: {kind: same_rows, axis: 0}}}}
workload_sets:
  cpu_quick: {about: test, dtype: f32, workloads: [{N: 6, C: 8, E: 5}]}
)";
    std::ofstream(folder / "router/reference.py") << "import torch\n\n\ndef compute(x, w, v):\n"
                                                  << body << "\n";
    return load_task(folder / "router");
  }

  // How the judge finds a kernel whose experts are what `choose(row, slot, the reference's)` says, and whose
  // values are those of v there, or the reference's (`follows`).
  template <class Choose>
  Comparison judge(bool ties, bool follows, const Choose& choose, bool in_pieces = false) {
    if (!library) {
      auto opened = open_reference(task, folder / "cache", python_with_torch_2());
      BOOST_REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message));
      library = std::move(*opened);
    }
    const std::map<std::string, Fill> fills =
        ties ? task.stress.front().fills : std::map<std::string, Fill>{};
    const Inputs inputs = make_inputs(nullptr, task, workload, 5, fills);
    const Oracle oracle(*library, task, workload, 2);
    const std::vector<double> exact = oracle.rows(library->exact(), inputs.view(), rows);
    std::vector<double> values, experts;
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t slot = 0; slot < kChosen; ++slot) {
        const auto at = static_cast<std::size_t>(row * 2 * kChosen + slot);
        experts.push_back(choose(row, slot, exact[at + kChosen]));
        const double expert = std::clamp(experts.back(), 0.0, kExperts - 1.0);
        values.push_back(follows ? inputs.values[2][row * kExperts + static_cast<std::int64_t>(expert)]
                                 : exact[at]);
      }
    std::vector<std::vector<std::byte>> outputs(2, std::vector<std::byte>(4 * values.size()));
    encode(Dtype::f32, values, outputs[0]);
    encode(Dtype::i32, experts, outputs[1]);
    const RowLayout layout(task, workload);
    const auto computed = [&](RowFunction function) {
      return [&, function](std::span<const std::int64_t> some, std::span<double> out) {
        oracle.rows(function, inputs.view(), some, out);
      };
    };
    if (in_pieces) {
      RowsInPieces expected{rows, computed(library->exact()), computed(library->rounded())};
      expected.elements = 7;
      expected.right_indices = oracle.index_rule(inputs.view());
      return compare_in_pieces(task, layout, outputs, expected);
    }
    ExpectedRows expected{rows, exact, [&] { return oracle.rows(library->rounded(), inputs.view(), rows); }};
    expected.right_indices = oracle.index_rule(inputs.view());
    return compare(task, layout, outputs, expected);
  }
};

double next(std::int64_t, std::int64_t, double expert) {
  return static_cast<double>((static_cast<std::int64_t>(expert) + 1) % kExperts);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(python_indices, Router)

BOOST_AUTO_TEST_CASE(another_index_is_right_where_scores_are_equal_and_only_there) {
  for (const bool in_pieces : {false, true}) {
    BOOST_TEST(judge(true, true, next, in_pieces).right);
    const Comparison wrong = judge(false, true, next, in_pieces);
    BOOST_TEST(!wrong.right);
    BOOST_TEST(contains(wrong.diagnostics + wrong.reason, "experts"));
  }
}

BOOST_AUTO_TEST_CASE(what_follows_from_the_indices_must_be_that_of_the_kernels) {
  for (const bool in_pieces : {false, true}) {
    const Comparison wrong = judge(true, false, next, in_pieces);
    BOOST_TEST(!wrong.right);
    BOOST_TEST(contains(wrong.reason, "values"));
  }
}

BOOST_AUTO_TEST_CASE(an_index_twice_or_out_of_range_is_wrong) {
  const auto twice = [](std::int64_t row, std::int64_t slot, double expert) {
    return row == 2 ? 1.0 : next(row, slot, expert);
  };
  const auto outside = [](std::int64_t row, std::int64_t slot, double expert) {
    return row == 2 && slot == 0 ? double(kExperts) : expert;
  };
  const auto negative = [](std::int64_t row, std::int64_t slot, double expert) {
    return row == 2 && slot == 0 ? -1.0 : expert;
  };
  BOOST_TEST(!judge(true, true, twice).right);
  BOOST_TEST(!judge(true, true, outside).right);
  BOOST_TEST(!judge(true, true, negative).right);
}

// Scores that are inputs have no roundings: only an equal one is as right.
BOOST_AUTO_TEST_CASE(a_score_that_is_nearly_equal_is_wrong_where_nothing_rounds) {
  task = load(
      "    near = torch.zeros_like(v) + torch.arange(v.shape[1]) * 2.0**-22\n"
      "    experts = torch.topk(1.0 - near, 2).indices\n"
      "    return v.gather(1, experts), experts.to(torch.int32)");
  BOOST_TEST(judge(false, true, [](std::int64_t, std::int64_t, double expert) { return expert; }).right);
  BOOST_TEST(!judge(false, true, next).right);
}

// The indices of sums of whole numbers are no choice: they must be the reference's.
BOOST_AUTO_TEST_CASE(a_whole_number_that_is_no_chosen_index_must_be_the_references) {
  task = load(
      "    experts = torch.zeros(v.shape[0], 2) + w.sum() * 0.0\n"
      "    return v[:, :2] + 0.0, experts.to(torch.int32)");
  BOOST_TEST(!judge(true, true, next).right);
}

BOOST_AUTO_TEST_SUITE_END()
