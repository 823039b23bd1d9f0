// SPDX-License-Identifier: Apache-2.0
// runs alone
// Kernels in Triton on a real GPU: the seeds are right and measured, and every kernel under
// tests/kernels/triton/cheats and hostile is stopped, or gains nothing. Needs a Python with Triton
// (CULTIVAR_PYTHON); skipped without.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"
#include "support/places.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

boost::test_tools::assertion_result triton_is_here(boost::unit_test::test_unit_id) {
  const auto found = find_interpreter(default_python(), PythonNeeds::triton);
  boost::test_tools::assertion_result here(found.has_value());
  if (!found) here.message() << found.error().message;
  return here;
}

struct Judge {
  explicit Judge(const std::string& name) {
    options.target = target_named("cuda");
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = testing::source_folder() / "configs/tasks" / name;
    options.run_deadline_s = 2.0;
    task = load_task(options.task_folder);
    device = std::make_unique<DeviceService>(options);
    const auto info = device->info();
    BOOST_REQUIRE_MESSAGE(info, words(info));
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    compiler = std::make_unique<CompileService>(options);
  }

  Evaluation judge(const fs::path& file, const std::vector<Workload>& workloads) {
    const Variant variant = load_variant(testing::source_folder() / file, task);
    auto compiled = compiler->compile(variant, workloads);
    if (!compiled) return compiled.error();
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = workloads;
    request.stop_after = Stage::measure;
    const auto evaluation = device->evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluation, file.string() << ": " << words(evaluation));
    return *evaluation;
  }
  Evaluation judge(const fs::path& file) { return judge(file, task.workloads("quick")->workloads); }

  ServiceOptions options;
  Task task;
  std::unique_ptr<CompileService> compiler;
  std::unique_ptr<DeviceService> device;
};

std::vector<Workload> large_softmax() {
  Workload workload;
  workload.name = "large";
  workload.dtype = Dtype::f32;
  workload.values = {{"R", 4096}, {"C", 1024}};
  return {workload};
}

std::vector<fs::path> kernels_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(testing::source_folder() / folder))
    if (entry.path().extension() == ".py") files.push_back(fs::path(folder) / entry.path().filename());
  std::ranges::sort(files);
  return files;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(triton, *gpu_test::needs_a_gpu() * boost::unit_test::precondition(triton_is_here))

BOOST_AUTO_TEST_CASE(the_seeds_are_right_and_measured) {
  for (const auto& [task, seed] : {std::pair("softmax", "triton_rows.py"),
                                   {"rmsnorm", "triton_rows.py"},
                                   {"matmul", "triton_tiles.py"}}) {
    Judge judge(task);
    const Evaluation e = judge.judge(fs::path("configs/tasks") / task / "seeds" / seed);
    BOOST_TEST(e.measured(), task << " was stopped at " << name_of(e.stage) << ": " << e.reason << "\n"
                                  << e.diagnostics);
    BOOST_TEST_MESSAGE("fate: " << task << " -> " << e.fitness << " " << e.unit);
  }
}

// What reads or keeps without being told on may pass where it finds nothing; its time must then be that of
// honest work.
BOOST_AUTO_TEST_CASE(cheats_are_stopped_or_gain_nothing) {
  constexpr double kNotFaster = 0.85;
  const std::set<std::string> may_pass = {"keeps_state_at_known_addresses.py",
                                          "pins_its_input_in_the_cache.py", "remembers_in_workspace.py"};
  Judge judge("softmax");
  const Evaluation honest = judge.judge("tests/kernels/triton/honest_softmax.py", large_softmax());
  BOOST_REQUIRE_MESSAGE(honest.measured(), honest.reason << "\n" << honest.diagnostics);
  for (const fs::path& file : kernels_in("tests/kernels/triton/cheats")) {
    const Evaluation e = judge.judge(file, large_softmax());
    BOOST_TEST_MESSAGE("fate: " << file << " -> " << (e.measured() ? "measured" : name_of(e.stage)) << ": "
                                << e.reason);
    if (e.measured() && may_pass.contains(file.filename()))
      BOOST_TEST(e.workloads.front().median_us >= kNotFaster * honest.workloads.front().median_us, file);
    else
      BOOST_TEST(!e.measured(), file << " got through");
  }
}

BOOST_AUTO_TEST_CASE(what_breaks_or_hangs_the_device_is_stopped_and_the_next_is_judged_as_ever) {
  Judge judge("softmax");
  for (const fs::path& file : kernels_in("tests/kernels/triton/hostile")) {
    const Evaluation e = judge.judge(file, large_softmax());
    BOOST_TEST_MESSAGE("fate: " << file << " -> " << (e.measured() ? "measured" : name_of(e.stage)) << ": "
                                << e.reason);
    BOOST_TEST(!e.measured(), file << " got through");
    const Evaluation next = judge.judge("tests/kernels/triton/honest_softmax.py", large_softmax());
    BOOST_TEST(next.measured(), next.reason << "\n" << next.diagnostics);
  }
}

BOOST_AUTO_TEST_SUITE_END()
