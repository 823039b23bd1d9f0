// SPDX-License-Identifier: Apache-2.0
// runs alone
// Check builds on a real GPU: PTX with counters, which the driver translates, tells which blocks ran.
#include <algorithm>
#include <memory>
#include <thread>

#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;

namespace {

struct Judge {
  explicit Judge(const std::string& name) {
    options.target = target_named("cuda");
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = testing::source_folder() / "configs/tasks" / name;
    task = load_task(options.task_folder);
    device = std::make_unique<DeviceService>(options);
    const auto info = device->info();
    BOOST_REQUIRE_MESSAGE(info, words(info));
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    options.compile_workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
    compiler = std::make_unique<CompileService>(options);
  }

  Evaluation confirm(const std::string& file, const Workload& workload) {
    const Variant variant = load_variant(testing::source_folder() / file, task);
    auto compiled = compiler->compile(variant, {workload}, Breadth::confirming);
    BOOST_REQUIRE_MESSAGE(compiled, compiled.error().reason);
    BOOST_TEST(compiled->check_builds.size() == std::min(compiled->binaries.size(), kMostCheckBuilds));
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = {workload};
    request.stop_after = Stage::confirm;
    const auto evaluation = device->evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluation, file << ": " << words(evaluation));
    BOOST_TEST_MESSAGE("fate: " << file << " -> "
                                << (evaluation->measured() ? "confirmed" : evaluation->reason) << "\n"
                                << (evaluation->coverage ? evaluation->coverage->text() : std::string()));
    return *evaluation;
  }

  ServiceOptions options;
  Task task;
  std::unique_ptr<CompileService> compiler;
  std::unique_ptr<DeviceService> device;
};

Workload rows() {
  return {"large", Dtype::f32, {{"R", 4096}, {"C", 1024}}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_check_build, *gpu_test::needs_a_gpu())

BOOST_AUTO_TEST_CASE(an_honest_kernel_is_confirmed_with_every_block_run) {
  const Evaluation honest = Judge("softmax").confirm("configs/tasks/softmax/seeds/cuda_naive.cu", rows());
  BOOST_TEST_REQUIRE(honest.measured(), honest.reason << honest.diagnostics);
  BOOST_REQUIRE(honest.coverage);
  BOOST_TEST(honest.coverage->missing.empty());
  BOOST_TEST(honest.coverage->blocks > 10);
  BOOST_TEST(honest.coverage->ran == honest.coverage->blocks);
}

BOOST_AUTO_TEST_CASE(a_loop_that_no_drawn_shape_reaches_is_listed) {
  const Evaluation passed = Judge("softmax").confirm("tests/kernels/cuda/coverage/never.cu", rows());
  BOOST_TEST_REQUIRE(passed.measured(), passed.reason << passed.diagnostics);
  BOOST_REQUIRE(passed.coverage);
  BOOST_REQUIRE(!passed.coverage->not_run.empty());
  for (const LinesNotRun& lines : passed.coverage->not_run) {
    BOOST_TEST(lines.first_line >= 73);
    BOOST_TEST(lines.last_line <= 76);
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_path_for_exactly_one_width_is_drawn_and_refused) {
  const Evaluation wrong = Judge("softmax").confirm("tests/kernels/cuda/coverage/one_width.cu", rows());
  BOOST_TEST(!wrong.measured());
  BOOST_TEST((wrong.reason.find("C7919") != std::string::npos), wrong.reason);
}

// wgmma, setmaxnreg, clusters and TMA with counters between them.
BOOST_AUTO_TEST_CASE(a_kernel_of_warp_groups_runs_with_counters) {
  Judge judge("attention_forward");
  const Workload timed = judge.task.workloads("d256") ? judge.task.workloads("d256")->workloads.front()
                                                      : judge.task.workload_sets.front().workloads.front();
  const Evaluation passed = judge.confirm("configs/tasks/attention_forward/seeds/cuda_wgmma.cu", timed);
  BOOST_TEST_REQUIRE(passed.measured(), passed.reason << passed.diagnostics);
  BOOST_REQUIRE(passed.coverage);
  BOOST_TEST(passed.coverage->missing.empty());
  BOOST_TEST(passed.coverage->ran > passed.coverage->blocks / 2);
}

BOOST_AUTO_TEST_SUITE_END()
