// SPDX-License-Identifier: Apache-2.0
// runs alone
// What compute-sanitizer adds to a confirmation, on a real GPU: two kernels with correct outputs that must
// not become the best. Skipped if compute-sanitizer is not installed.
#include "evaluators/devices/cuda/sanitizing.hpp"

#include <memory>

#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;

namespace {

struct Judge {
  Judge() {
    options.target = target_named("cuda");
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = testing::source_folder() / "configs/tasks/softmax";
    task = load_task(options.task_folder);
    device = std::make_unique<DeviceService>(options);
    const auto info = device->info();
    BOOST_REQUIRE_MESSAGE(info, words(info));
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    compiler = std::make_unique<CompileService>(options);
    workload.name = "large";
    workload.dtype = Dtype::f32;
    workload.values = {{"R", 4096}, {"C", 1024}};
  }

  Evaluation confirm(const std::string& file) {
    const Variant variant = load_variant(testing::source_folder() / "tests/kernels/cuda" / file, task);
    auto compiled = compiler->compile(variant, {workload}, Breadth::everything);
    BOOST_REQUIRE_MESSAGE(compiled, compiled.error().reason);
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = {workload};
    request.stop_after = Stage::confirm;
    const auto evaluation = device->evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluation, file << ": " << words(evaluation));
    BOOST_TEST_MESSAGE("fate: " << file << " -> "
                                << (evaluation->measured() ? "confirmed" : evaluation->reason) << "\n"
                                << evaluation->diagnostics);
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

boost::test_tools::assertion_result a_sanitizer_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(!find_sanitizer().empty());
  if (!here) here.message() << "compute-sanitizer is not installed";
  return here;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_sanitizer,
                      *gpu_test::needs_a_gpu() * boost::unit_test::precondition(a_sanitizer_is_here))

BOOST_AUTO_TEST_CASE(an_honest_kernel_is_confirmed_and_both_tools_had_a_look) {
  const Evaluation e = judge().confirm("honest_softmax.cu");
  BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  BOOST_TEST(e.diagnostics.find("not sanitized") == std::string::npos, e.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_read_behind_a_buffer_is_found_though_the_output_is_right) {
  const Evaluation e = judge().confirm("hostile/reads_one_too_far.cu");
  BOOST_TEST(!e.measured());
  BOOST_TEST((e.stage == Stage::confirm));
  BOOST_TEST(e.reason.find("memcheck found") != std::string::npos, e.reason);
  BOOST_TEST(e.diagnostics.find("Invalid __global__ read") != std::string::npos, e.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_race_in_shared_memory_is_found_though_the_output_is_right) {
  const Evaluation e = judge().confirm("hostile/races_in_shared_memory.cu");
  BOOST_TEST(!e.measured());
  BOOST_TEST((e.stage == Stage::confirm));
  BOOST_TEST(e.reason.find("racecheck found") != std::string::npos, e.reason);
}

BOOST_AUTO_TEST_SUITE_END()
