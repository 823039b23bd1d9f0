// SPDX-License-Identifier: Apache-2.0
// Runs a variant's small shapes in oclgrind, a simulator of an OpenCL device, to find what a correct output
// does not show: accesses outside buffers, races between work items, and what is read before it is written.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "evaluators/devices/opencl/code/opencl_program.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

// The kinds of findings in a log of oclgrind, by their first lines: "Invalid write of size 4 at global memory
// address 0x2000000001400".
struct OclgrindLog {
  int findings = 0;
  std::string first;  // the first line of the first one
  std::string text;   // some of them, for people
};
OclgrindLog read_oclgrind_log(const std::string&);

class Oclgrind : public SecondLook {
 public:
  explicit Oclgrind(const ServiceOptions&);
  ~Oclgrind() override;

  void prepare() override {}
  // The shapes of smoke and edge in the order of their arithmetic, until the time for all is over.
  Outcome run(const Compiled&, const std::vector<Workload>&, const Progress&) override;
  void interrupt() override;

 private:
  Outcome look(const Variant&, const Workload&, const std::string& plugin, double seconds);
  std::string missing_;  // why oclgrind is not used
  std::optional<OpenclProgram> program_;
  std::optional<Task> task_;
  Facts facts_;
  std::atomic<bool> interrupted_{false};
  std::mutex mutex_;
  std::optional<ChildProcess> child_;  // that runs now
};

}  // namespace cultivar
