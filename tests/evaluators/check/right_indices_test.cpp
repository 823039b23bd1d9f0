// SPDX-License-Identifier: Apache-2.0
// Outputs of whole numbers must be the oracle's exactly, or right by the task's own rule.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
namespace fs = std::filesystem;

namespace {

// The index of the largest of V scores and of the largest but one. V is so large that a float's last place at
// an index is more than 0.01, and the scores have many ties.
struct Indices {
  fs::path folder = fs::temp_directory_path() / ("cultivar-indices-" + std::to_string(::getpid()));
  Workload workload;
  std::vector<std::int64_t> rows;

  Indices() {
    fs::create_directories(folder / "top2");
    std::ofstream(folder / "top2/task.yaml") << R"(name: top2
summary: "the indices of the two largest scores of each row; of equal ones the lower first"
dimensions: {R: {about: rows}, V: {about: scores}, K: {about: chosen, default: 2}}
dtypes: [f32]
tensors:
  scores: {role: input, shape: [R, V], fill: {kind: integers, a: 0, b: 1000}}
  best: {role: output, shape: [R, K], dtype: i32}
rows: [R]
cost: {bytes: "4 * R * V", flops: "R * V", report: bytes}
checks: {smoke: [{R: 2, V: 8}], sweep: [{R: 2, V: 8}], edge: [{R: 1, V: 2}], stress_shapes: [{R: 1, V: 8}], stress: {equal: {about: all equal, scores: {kind: constant, a: 1}}}}
workload_sets:
  cpu_quick: {about: test, dtype: f32, workloads: [{R: 6, V: 300000}]}
)";
    workload.name = "w";
    workload.values = {{"R", 6.0}, {"V", 300000.0}, {"K", 2.0}};
    rows.resize(6);
    std::iota(rows.begin(), rows.end(), 0);
  }
  ~Indices() { fs::remove_all(folder); }

  static std::string reference(const std::string& rule) {
    return R"(#include "cultivar_reference.hpp"
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t V = args.integer("V");
  const double* v = args.tensor("scores") + row * V;
  std::int64_t best = 0, next = 1;
  for (std::int64_t i = 1; i < V; ++i)
    if (v[i] > v[best]) next = best, best = i;
    else if (i == 1 || v[i] > v[next]) next = i;
  out[0] = static_cast<double>(best), out[1] = static_cast<double>(next);
}
)" + rule;
  }

  // Compares the oracle's answer with this change of it in row 3.
  template <class Change>
  Comparison judge(const std::string& rule, const Change& change, bool in_pieces) const {
    std::ofstream(folder / "top2/reference.cpp") << reference(rule);
    const Task task = load_task(folder / "top2");
    const auto library = open_reference(task, folder / "cache");
    BOOST_REQUIRE_MESSAGE(library, (library ? "" : library.error().message));
    const Inputs inputs = make_inputs(nullptr, task, workload, 5);
    const Oracle oracle(*library, task, workload, 2);
    const std::vector<double> exact = oracle.rows(library->exact(), inputs.view(), rows);
    std::vector<double> given = exact;
    change(inputs.values[0] + 3 * 300000, given.data() + 6);
    std::vector<std::vector<std::byte>> outputs(1, std::vector<std::byte>(4 * given.size()));
    encode(Dtype::i32, given, outputs[0]);
    const RowLayout layout(task, workload);
    if (!in_pieces) {
      ExpectedRows expected{rows, exact, {}};
      expected.right_indices = oracle.index_rule(inputs.view());
      return compare(task, layout, outputs, expected);
    }
    RowsInPieces expected{rows,
                          [&](std::span<const std::int64_t> some, std::span<double> out) {
                            oracle.rows(library->exact(), inputs.view(), some, out);
                          },
                          {}};
    expected.elements = 3;
    expected.right_indices = oracle.index_rule(inputs.view());
    return compare_in_pieces(task, layout, outputs, expected);
  }
};

const std::string kTies = R"(
extern "C" bool is_right_index(const ReferenceArgs& args, const IndexAnswer& answer) {
  const std::int64_t V = args.integer("V");
  return answer.ties(args.tensor("scores") + answer.row * V, V);
}
)";

// The last index with the same score as that one.
double last_tie(const double* scores, double index) {
  auto tie = static_cast<std::int64_t>(index);
  for (std::int64_t i = 0; i < 300000; ++i)
    if (scores[i] == scores[static_cast<std::int64_t>(index)]) tie = i;
  BOOST_REQUIRE(tie != static_cast<std::int64_t>(index));
  return static_cast<double>(tie);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(right_indices, Indices)

BOOST_AUTO_TEST_CASE(without_a_rule_every_whole_number_must_be_the_oracles) {
  const auto nothing = [](const double*, double*) {};
  const auto off_by_one = [](const double*, double* given) { given[0] += 1.0; };
  const auto tie = [](const double* scores, double* given) { given[1] = last_tie(scores, given[1]); };
  for (const bool in_pieces : {false, true}) {
    BOOST_TEST(judge("", nothing, in_pieces).right);
    const Comparison wrong = judge("", off_by_one, in_pieces);
    BOOST_TEST(!wrong.right);
    BOOST_TEST(contains(wrong.reason, "best has 1 wrong of 12 compared whole numbers"), wrong.reason);
    BOOST_TEST(contains(wrong.diagnostics, "first wrong element: best[R=3, K=0] got"), wrong.diagnostics);
    BOOST_TEST(!judge("", tie, in_pieces).right);
  }
}

BOOST_AUTO_TEST_CASE(a_rule_says_which_other_answers_are_right) {
  const auto tie = [](const double* scores, double* given) { given[1] = last_tie(scores, given[1]); };
  const auto off_by_one = [](const double*, double* given) { given[0] += 1.0; };
  const auto swapped = [](const double*, double* given) { std::swap(given[0], given[1]); };
  const auto twice = [](const double*, double* given) { given[1] = given[0]; };
  const auto outside = [](const double*, double* given) { given[0] = 300000.0; };
  for (const bool in_pieces : {false, true}) {
    BOOST_TEST(judge(kTies, tie, in_pieces).right);
    BOOST_TEST(judge(kTies, swapped, in_pieces).right);  // the two largest are equal
    BOOST_TEST(!judge(kTies, off_by_one, in_pieces).right);
    BOOST_TEST(!judge(kTies, twice, in_pieces).right);
    BOOST_TEST(!judge(kTies, outside, in_pieces).right);
  }
}

BOOST_AUTO_TEST_CASE(a_rule_may_permit_near_ties) {
  const std::string near = R"(
extern "C" bool is_right_index(const ReferenceArgs& args, const IndexAnswer& answer) {
  const std::int64_t V = args.integer("V");
  return answer.ties(args.tensor("scores") + answer.row * V, V, 1.0 + answer.permitted(1000.0));
}
)";
  const auto almost = [](const double* scores, double* given) {
    std::int64_t i = 0;
    while (scores[i] != 998.0) ++i;
    given[0] = static_cast<double>(i);
  };
  const auto farther = [](const double* scores, double* given) {
    std::int64_t i = 0;
    while (scores[i] != 997.0) ++i;
    given[0] = static_cast<double>(i);
  };
  BOOST_TEST(judge(near, almost, true).right);
  BOOST_TEST(!judge(near, farther, true).right);
  BOOST_TEST(!judge(kTies, almost, true).right);
}

// The rule is code of the task, which may come from anybody.
BOOST_AUTO_TEST_CASE(a_rule_may_only_compute) {
  const std::string prints = R"(
#include <unistd.h>
extern "C" bool is_right_index(const ReferenceArgs&, const IndexAnswer&) { return ::getppid() > 0; }
)";
  const auto off_by_one = [](const double*, double* given) { given[0] += 1.0; };
  try {
    judge(prints, off_by_one, false);
    BOOST_TEST(false, "the rule made a system call");
  } catch (const std::runtime_error& error) {
    BOOST_TEST(contains(error.what(), "is_right_index of reference.cpp made a system call"), error.what());
  }
}

BOOST_AUTO_TEST_SUITE_END()
