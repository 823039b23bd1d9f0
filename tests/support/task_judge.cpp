// SPDX-License-Identifier: Apache-2.0
#include "support/task_judge.hpp"

#include <boost/test/unit_test.hpp>

#include "support/words.hpp"

namespace cultivar::testing {

namespace fs = std::filesystem;

fs::path test_kernels() {
  return fs::path(CULTIVAR_SOURCE_DIR) / "tests/kernels";
}

TaskJudge::TaskJudge(const std::string& task, Bindings workload) {
  options_.programs = CULTIVAR_BIN_DIR;
  options_.cache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";
  options_.task_folder = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks" / task;
  options_.compile_deadline_s = 10.0;
  options_.compile_workers = 2;
  options_.run_deadline_s = 3.0;
  task_ = load_task(options_.task_folder);
  compiler_ = std::make_unique<CompileService>(options_);
  device_ = std::make_unique<DeviceService>(options_);
  workload_.name = "large";
  workload_.dtype = Dtype::f32;
  workload_.values = std::move(workload);
  for (const Parameter& p : task_.parameters)
    if (p.fallback) workload_.values.try_emplace(p.name, p.fallback->evaluate(workload_.values).value());
}

Evaluation TaskJudge::judge(const std::string& file, Stage stop_after) {
  auto compiled = compile(file, stop_after);
  return compiled ? evaluate(file, std::move(*compiled), stop_after) : compiled.error();
}

tl::expected<Compiled, Evaluation> TaskJudge::compile(const std::string& file, Stage stop_after) {
  std::optional<Variant> variant;
  try {
    variant = load_variant(test_kernels() / file, task_);
  } catch (const InputError& e) {
    return tl::make_unexpected(rejection(Stage::lint, e.what(), ""));
  }
  return compiler_->compile(*variant, {workload_},
                            stop_after == Stage::confirm ? Breadth::confirming : Breadth::searching);
}

Evaluation TaskJudge::evaluate(const std::string& file, Compiled compiled, Stage stop_after) {
  EvaluateRequest request;
  request.variant = std::move(compiled);
  request.workloads = {workload_};
  request.sampling.screening_samples = 6;
  request.every_row = true;
  request.stop_after = stop_after;
  const auto evaluation = device_->evaluate(request);
  BOOST_REQUIRE_MESSAGE(evaluation, file << ": " << words(evaluation));
  return *evaluation;
}

}  // namespace cultivar::testing
