// runs alone
// Kernels that are right wherever a reader of the task expects a check, under tests/kernels/dodges.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>

#include "evaluators/worker/services.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

const fs::path kKernels = fs::path(CULTIVAR_SOURCE_DIR) / "tests/kernels";

struct Judge {
  Judge() {
    options.programs = CULTIVAR_BIN_DIR;
    options.cache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";
    options.task_folder = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax";
    options.compile_deadline_s = 20.0;
    options.run_deadline_s = 5.0;
    task = load_task(options.task_folder);
    compiler = std::make_unique<CompileService>(options);
    device = std::make_unique<DeviceService>(options);
    workload.name = "large";
    workload.dtype = Dtype::f32;
    workload.values = {{"R", 8192}, {"C", 1024}};
  }

  // As a search confirms a new best.
  Evaluation confirm(const std::string& file) {
    auto compiled = compiler->compile(load_variant(kKernels / file, task), {workload}, Breadth::everything);
    if (!compiled) return compiled.error();
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = {workload};
    request.sampling.screening_samples = 6;
    request.stop_after = Stage::confirm;
    const auto evaluation = device->evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluation, file << ": " << words(evaluation));
    return *evaluation;
  }

  ServiceOptions options;
  Task task;
  Workload workload;
  std::unique_ptr<CompileService> compiler;
  std::unique_ptr<DeviceService> device;
};

Judge& judge() {
  static Judge instance;
  return instance;
}

struct Dodge {
  const char* file;
  std::set<Stage> stages;
  const char* words;
  int evaluations;  // within which it is caught with a probability of at least 1 - 1e-6
};

const Dodge kDodges[] = {
    {"trusts_its_first_values", {Stage::sweep, Stage::edge, Stage::measure}, "mixed values", 10},
    {"counts_equal_values_once", {Stage::sweep, Stage::edge, Stage::measure}, "mixed values", 10},
    {"knows_the_listed_shapes", {Stage::edge}, "a drawn shape", 1},
    {"is_compiled_for_the_listed_shapes", {Stage::edge}, "a drawn shape", 1},
    {"does_not_claim_a_holdout", {Stage::lint}, "singles out R3001_C1333_f32", 1},
    {"allows_only_the_listed_rows", {Stage::lint}, "constraints exclude claimed shapes", 1},
    {"claims_only_the_listed_rows", {Stage::lint}, "claims only shapes that the task lists", 1},
    {"skips_rows_by_address", {Stage::sweep, Stage::edge, Stage::measure}, "blocks of", 1},
    {"skips_rows_of_tame_inputs", {Stage::edge, Stage::measure}, "blocks of", 1},
    {"is_wrong_at_multiples_of_eleven", {Stage::edge}, "a drawn shape", 12},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(secret_checks)

BOOST_AUTO_TEST_CASE(what_is_right_only_where_a_check_is_expected_is_not_confirmed) {
  for (const Dodge& dodge : kDodges) {
    const std::string file = std::string("dodges/") + dodge.file + ".cpp";
    Evaluation e;
    int used = 0;
    do e = judge().confirm(file);
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

BOOST_AUTO_TEST_CASE(honest_work_is_confirmed) {
  for (int i = 0; i < 5; ++i) {
    const Evaluation e = judge().confirm("honest_softmax.cpp");
    BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(no_kernel_in_the_folder_is_forgotten) {
  std::set<std::string> listed, present;
  for (const Dodge& dodge : kDodges) listed.insert(dodge.file);
  for (const auto& entry : fs::directory_iterator(kKernels / "dodges"))
    present.insert(entry.path().stem().string());
  BOOST_TEST(listed == present, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
