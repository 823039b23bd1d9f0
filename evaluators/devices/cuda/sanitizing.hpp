// SPDX-License-Identifier: Apache-2.0
// Runs a variant's small shapes again under NVIDIA's compute-sanitizer, to find accesses outside its buffers
// and shared memory (memcheck) and races between threads of a block in shared memory (racecheck). Neither is
// visible in a correct output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "evaluators/worker/link.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

// The content of the tool's log. Does not throw: an unknown log counts as one without a summary.
struct SanitizerLog {
  bool ended = false;    // the log has a summary
  int errors = 0;        // for racecheck the hazards that are errors; clamped to the range of int
  std::string findings;  // the first of them, verbatim
};
SanitizerLog read_sanitizer_log(const std::string& text);

// Searches PATH and CUDA's usual locations; empty if not found.
std::filesystem::path find_sanitizer();

// The result of one run under a tool.
struct SanitizerLook {
  enum class Kind {
    clean,
    found,
    failed,  // the variant failed under the tool what it passed without it
    lost,    // no reply or no summary: the tool or the worker ended unexpectedly
    interrupted
  } kind = Kind::clean;
  std::string reason = {};  // one line; empty if clean
  std::string findings = {};
};

using SanitizerOutcome = SecondLook::Outcome;
// What both tools say together. A tool that is lost is a defect of the tool more often than of the kernel
// (seen with CUDA 13.0 and honest kernels), so that one alone blames no kernel if the other one found
// nothing.
SanitizerOutcome together(std::vector<SanitizerOutcome>);

// One tool with its forms. The next form is used only if the one before was lost, and all are tried again if
// that gave no result. A kernel that detects the tool could avoid inspection by failing, so a failure under
// the tool is a rejection. The exception: if the tool also fails with `control` (nullptr: with no kernel at
// all), the tool does not work here, and the note says so.
using SanitizerForm = std::function<SanitizerLook(const Compiled*)>;
SanitizerOutcome examine(const std::string& tool, const std::vector<SanitizerForm>& forms,
                         const Compiled& variant, const Compiled* control);

// Runs both tools at once.
class Sanitizing : public SecondLook {
 public:
  explicit Sanitizing(const ServiceOptions&);

  ~Sanitizing() override;

  void prepare() override;
  Outcome run(const Compiled&, const std::vector<Workload>&, const Progress&) override;
  void interrupt() override;

 private:
  void await_start();
  struct Form {
    std::string tool;
    std::filesystem::path log;
    WorkerLink link;
  };
  SanitizerLook look(Form&, const Compiled*, const std::vector<Workload>&, const Progress&);

  std::string missing_;                                    // why compute-sanitizer is not used
  std::vector<std::vector<std::unique_ptr<Form>>> tools_;  // the forms of each tool, in order of use
  std::optional<Compiled> control_;                        // the last variant that all tools found clean
  std::vector<Workload> workloads_of_control_;
  std::vector<std::thread> starting_;  // the first form of each tool
  double run_deadline_s_;
};

}  // namespace cultivar
