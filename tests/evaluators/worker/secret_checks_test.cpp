// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 120 s, evaluators/check, evaluators/judge
// Kernels that are right wherever a reader of the task expects a check, under tests/kernels/dodges.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>
#include <tuple>

#include "support/softmax_judge.hpp"

using cultivar::testing::SoftmaxJudge;
using cultivar::testing::TaskJudge;
using cultivar::testing::test_kernels;
using namespace cultivar;

namespace {

SoftmaxJudge& judge() {
  static SoftmaxJudge instance;
  return instance;
}

// As a search confirms a new best.
Evaluation confirmed(const std::string& file) {
  return judge().judge(file, Stage::confirm);
}

struct Dodge {
  const char* file;
  std::set<Stage> stages;
  const char* words;
  int evaluations;  // within which it is caught with a probability of at least 1 - 1e-6
};

const Dodge kDodges[] = {
    {"trusts_its_first_values",
     {Stage::sweep, Stage::stress, Stage::edge, Stage::measure},
     "differs from the oracle",
     10},
    {"counts_equal_values_once",
     {Stage::sweep, Stage::stress, Stage::edge, Stage::measure},
     "differs from the oracle",
     10},
    {"knows_the_listed_shapes", {Stage::edge}, "a drawn shape", 1},
    {"is_compiled_for_the_listed_shapes", {Stage::stress, Stage::edge}, "a drawn shape", 1},
    {"does_not_claim_a_holdout", {Stage::lint}, "singles out R3001_C1333_f32", 1},
    {"allows_only_the_listed_rows", {Stage::lint}, "constraints exclude claimed shapes", 4},
    {"claims_only_the_listed_rows", {Stage::lint}, "claims only shapes that the task lists", 1},
    {"skips_rows_by_address", {Stage::sweep, Stage::determinism, Stage::edge, Stage::measure}, "differ", 1},
    {"skips_rows_of_tame_inputs", {Stage::edge, Stage::measure}, "differs from the oracle", 1},
    {"is_wrong_at_multiples_of_eleven", {Stage::edge}, "a drawn shape", 12},
    {"claims_two_rows_in_three", {Stage::lint}, "singles out R3001_C1333_f32", 1},
    {"leaves_a_gap_around_a_holdout", {Stage::lint}, "singles out R3001_C1333_f32", 1},
    {"is_compiled_wrong_at_every_other_shape", {Stage::stress, Stage::edge}, "a drawn shape", 6},
    {"drops_the_maximum_of_large_inputs",
     {Stage::stress, Stage::edge, Stage::measure},
     "differs from the oracle",
     50},
    {"trusts_every_eighth_value",
     {Stage::sweep, Stage::stress, Stage::edge, Stage::measure},
     "differs from the oracle",
     10},
    {"is_wrong_with_very_many_rows", {Stage::edge}, "a drawn shape", 5},
    {"leaves_a_wide_gap_around_a_holdout", {Stage::lint}, "singles out R3001_C1333_f32", 2},
    {"scales_large_rows_by_what_it_found",
     {Stage::determinism},
     "two runs on the same inputs differ on large",
     1},
    {"skips_rows_on_odd_pages", {Stage::determinism, Stage::edge, Stage::measure}, "differ", 2},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(secret_checks)

BOOST_AUTO_TEST_CASE(what_is_right_only_where_a_check_is_expected_is_not_confirmed) {
  for (const Dodge& dodge : kDodges) {
    const std::string file = std::string("dodges/") + dodge.file + ".cpp";
    Evaluation e;
    int used = 0;
    do e = confirmed(file);
    while (e.measured() && ++used < dodge.evaluations);
    BOOST_TEST_MESSAGE(file << " -> " << (e.measured() ? "confirmed" : name_of(e.stage)) << " after " << used
                            << ": " << e.reason);
    BOOST_TEST(!e.measured(), file << " was confirmed");
    BOOST_TEST(dodge.stages.contains(e.stage),
               file << " was stopped at " << name_of(e.stage) << ": " << e.reason);
    BOOST_TEST((e.reason + "\n" + e.diagnostics).find(dodge.words) != std::string::npos,
               file << " is told: " << e.reason << "\n"
                    << e.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(parameters_have_values_that_no_file_gives_too) {
  TaskJudge attention("attention_forward",
                      {{"B", 1}, {"H", 4}, {"H_kv", 4}, {"S_q", 512}, {"S_kv", 512}, {"D", 64}});
  for (const auto& [file, parameter, evaluations] : {std::tuple{"knows_the_usual_scale", "scale", 1},
                                                     std::tuple{"knows_the_listed_windows", "window", 8}}) {
    Evaluation e;
    int used = 0;
    do e = attention.judge(std::string("dodges/") + file + ".cpp", Stage::confirm);
    while (e.measured() && ++used < evaluations);
    BOOST_TEST_MESSAGE(file << " after " << used << ": " << e.reason);
    BOOST_TEST((e.stage == Stage::edge && !e.measured()), name_of(e.stage) << ": " << e.reason);
    BOOST_TEST(e.reason.find(parameter) != std::string::npos, e.reason);
    BOOST_TEST(e.reason.find("a drawn shape") != std::string::npos, e.reason);
  }
}

BOOST_AUTO_TEST_CASE(honest_work_is_confirmed) {
  for (int i = 0; i < 2; ++i) {
    const Evaluation e = confirmed("honest_softmax.cpp");
    BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(no_kernel_in_the_folder_is_forgotten) {
  std::set<std::string> listed{"knows_the_usual_scale", "knows_the_listed_windows"}, present;
  for (const Dodge& dodge : kDodges) listed.insert(dodge.file);
  for (const auto& entry : std::filesystem::directory_iterator(test_kernels() / "dodges"))
    present.insert(entry.path().stem().string());
  BOOST_TEST(listed == present, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
