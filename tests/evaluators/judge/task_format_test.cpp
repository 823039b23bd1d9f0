// SPDX-License-Identifier: Apache-2.0
// runs alone
// What the task format and the manifest offer beyond one output of floats: honest kernels pass, cheats do
// not.
#include <boost/test/unit_test.hpp>

#include "support/softmax_judge.hpp"

using cultivar::testing::SoftmaxJudge;
using cultivar::testing::TaskJudge;
using namespace cultivar;

namespace {

void check_measured(const Evaluation& e) {
  BOOST_TEST(e.measured(), name_of(e.stage) << ": " << e.reason << "\n" << e.diagnostics);
}
void check_stopped(const Evaluation& e, std::set<Stage> stages, const std::string& words) {
  BOOST_TEST(!e.measured());
  BOOST_TEST(stages.contains(e.stage), name_of(e.stage) << ": " << e.reason);
  BOOST_TEST((e.reason + e.diagnostics).find(words) != std::string::npos, e.reason << "\n" << e.diagnostics);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(task_format)

BOOST_AUTO_TEST_CASE(an_output_with_rows_of_its_own_is_checked_and_may_differ_only_by_its_share) {
  TaskJudge judge("rmsnorm_backward", {{"R", 6144}, {"C", 2048}});
  check_measured(judge.judge("../../configs/tasks/rmsnorm_backward/seeds/naive.cpp", Stage::measure));
  check_stopped(judge.judge("format/sums_half_of_the_rows.cpp", Stage::measure), {Stage::smoke},
                "dw differs from the oracle");
  check_stopped(judge.judge("format/dithers_its_sum.cpp", Stage::measure), {Stage::determinism}, "dw[C=");
}

BOOST_AUTO_TEST_CASE(index_tensors_have_the_values_that_the_task_says) {
  TaskJudge judge("cross_entropy", {{"R", 1024}, {"V", 4096}});
  check_measured(judge.judge("../../configs/tasks/cross_entropy/seeds/naive.cpp", Stage::measure));
  check_stopped(judge.judge("format/expects_no_ignored_rows.cpp", Stage::measure),
                {Stage::smoke, Stage::sweep}, "loss differs from the oracle");
}

BOOST_AUTO_TEST_CASE(pages_lie_where_the_table_says) {
  TaskJudge judge(
      "attention_paged",
      {{"B", 8}, {"H", 32}, {"H_kv", 8}, {"S_q", 1}, {"M", 64}, {"PAGE", 16}, {"D", 128}, {"N", 600}});
  check_measured(judge.judge("../../configs/tasks/attention_paged/seeds/naive.cpp", Stage::measure));
  check_stopped(judge.judge("format/takes_pages_in_order.cpp", Stage::measure), {Stage::smoke},
                "differs from the oracle");
}

BOOST_AUTO_TEST_CASE(a_launch_is_repeated_and_left_out_as_the_manifest_says) {
  SoftmaxJudge judge;
  check_measured(judge.judge("format/repeats_its_kernel.cpp", Stage::measure));
  check_stopped(judge.judge("format/leaves_out_a_kernel.cpp", Stage::measure), {Stage::smoke, Stage::sweep},
                "never written");
}

BOOST_AUTO_TEST_CASE(a_declared_precision_is_what_a_kernel_may_round_to_and_no_lower_one) {
  TaskJudge judge("../../tests/kernels/format/declared_precision",
                  {{"M", 256}, {"N", 512}, {"K", 512}, {"tf32", 1}});
  check_measured(judge.judge("format/honest_precision.cpp", Stage::measure));
  check_stopped(judge.judge("format/takes_tf32_unasked.cpp", Stage::measure), {Stage::smoke}, "allowed");
  check_stopped(judge.judge("format/takes_bf16_for_tf32.cpp", Stage::measure), {Stage::smoke}, "allowed");
  check_stopped(judge.judge("format/flushes_small_fp8.cpp", Stage::measure), {Stage::smoke}, "allowed");
}

// Of one set of inputs, the error of a correct kernel is more than twice that of the model in three of ten.
BOOST_AUTO_TEST_CASE(a_correct_kernel_passes_where_a_few_roundings_decide_every_element) {
  TaskJudge judge("../../tests/kernels/format/one_sum", {{"R", 4096}, {"C", 512}, {"K", 512}});
  for (int i = 0; i < 20; ++i) check_measured(judge.judge("format/sums_from_the_end.cpp", Stage::stress));
  check_stopped(judge.judge("format/shortens_its_weights.cpp", Stage::stress), {Stage::smoke}, "allowed");
}

BOOST_AUTO_TEST_CASE(a_block_of_small_values_is_not_permitted_the_error_of_large_ones) {
  TaskJudge judge("../../tests/kernels/format/scaled_rows", {{"R", 4096}, {"C", 512}});
  for (int i = 0; i < 5; ++i) {
    const Evaluation e = judge.judge("format/rounds_by_its_largest_row.cpp", Stage::stress);
    if (e.stage == Stage::sweep)  // the values drawn there differed enough from row to row
      check_stopped(e, {Stage::sweep}, "differs from the oracle");
    else
      check_stopped(e, {Stage::stress}, "differs from the oracle in");
  }
}

BOOST_AUTO_TEST_SUITE_END()
