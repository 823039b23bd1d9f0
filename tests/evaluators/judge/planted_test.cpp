// SPDX-License-Identifier: Apache-2.0
// Kernels with one honest mistake each (tests/kernels/planted), which only drawn shapes and values find. A
// confirmation must refuse every one of them; experiments/judge_mutants measures how often.
// runs alone
// long: 110 s, evaluators/judge, evaluators/check
// always: a_softmax_that_looks*, an_index_that*
#include <boost/test/unit_test.hpp>

#include "evaluators/worker/services.hpp"
#include "support/task_judge.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// The checks of a confirmation, in up to three evaluations, of which one that fails ends them.
Evaluation confirmed(const std::filesystem::path& task_folder, const std::string& file) {
  ServiceOptions options;
  options.programs = CULTIVAR_BIN_DIR;
  options.cache = std::filesystem::path(CULTIVAR_BIN_DIR) / "../cache/tests";
  options.task_folder = task_folder;
  options.compile_workers = 2;
  const Task task = load_task(task_folder);
  const Variant variant = load_variant(test_kernels() / "planted" / file, task);
  CompileService compiler(options);
  DeviceService device(options);
  const std::vector<Workload>& workloads = task.workloads("cpu_quick")->workloads;
  Evaluation evaluation;
  for (int i = 0; i < 3; ++i) {
    auto compiled = compiler.compile(variant, workloads, Breadth::everything);
    if (!compiled) return compiled.error();
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = workloads;
    request.stop_after = Stage::confirm;
    request.checks_only = true;
    auto evaluated = device.evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluated, (evaluated ? "" : evaluated.error().message));
    evaluation = std::move(*evaluated);
    if (!evaluation.measured()) break;
  }
  return evaluation;
}

std::filesystem::path task_of(const std::string& name) {
  return std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks" / name;
}

void check_refused(const std::filesystem::path& task_folder, const std::string& file,
                   const std::string& reason = "wrong result on") {
  const Evaluation e = confirmed(task_folder, file);
  BOOST_TEST(!e.measured(), file << " was accepted");
  BOOST_TEST(e.reason.find(reason) == 0, e.reason << "\n" << e.diagnostics);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(planted)

BOOST_AUTO_TEST_CASE(a_softmax_that_looks_at_sixteen_columns_is_refused) {
  check_refused(task_of("softmax"), "looks_at_sixteen_columns.cpp");
}
BOOST_AUTO_TEST_CASE(an_attention_whose_first_tile_decides_the_maximum_is_refused) {
  check_refused(task_of("attention_forward"), "first_tile_decides.cpp");
}
BOOST_AUTO_TEST_CASE(an_attention_that_is_right_for_an_even_number_of_heads_is_refused) {
  check_refused(task_of("attention_forward"), "right_for_even_heads.cpp");
}
BOOST_AUTO_TEST_CASE(a_product_whose_manifest_decides_by_three_sizes_is_refused) {
  check_refused(task_of("matmul"), "blocks_of_eight_rows.cpp", "output elements not written on");
}
BOOST_AUTO_TEST_CASE(an_index_that_is_one_off_is_refused) {
  check_refused(test_kernels() / "planted/argmax", "argmax/one_off_in_odd_rows.cpp");
}
BOOST_AUTO_TEST_CASE(a_count_that_is_one_too_high_is_refused) {
  check_refused(test_kernels() / "planted/count_above", "count_above/one_too_high.cpp");
}

BOOST_AUTO_TEST_SUITE_END()
