// SPDX-License-Identifier: Apache-2.0
// The real services for one task on this machine's cores, for tests of what they accept and refuse.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "evaluators/worker/services.hpp"

namespace cultivar::testing {

class TaskJudge {
 public:
  // A task of configs/tasks, and the f32 workload on which kernels are timed.
  TaskJudge(const std::string& task, Bindings workload);

  const Task& task() const { return task_; }
  const Workload& workload() const { return workload_; }
  CompileService& compiler() { return *compiler_; }
  DeviceService& device() { return *device_; }

  // A kernel below tests/kernels, compiled and evaluated on the workload up to this stage, every row
  // compared; a failure before that is its evaluation.
  Evaluation judge(const std::string& file, Stage stop_after);
  // Its two halves. Two threads may compile at once; nothing else may run during an evaluation.
  tl::expected<Compiled, Evaluation> compile(const std::string& file, Stage stop_after);
  Evaluation evaluate(const std::string& file, Compiled compiled, Stage stop_after);

 private:
  ServiceOptions options_;
  Task task_;
  Workload workload_;
  std::unique_ptr<CompileService> compiler_;
  std::unique_ptr<DeviceService> device_;
};

std::filesystem::path test_kernels();  // the folder tests/kernels

}  // namespace cultivar::testing
