// A variant's small shapes once more, under NVIDIA's compute-sanitizer: what it reads or writes beside its
// buffers and its shared memory (memcheck), and threads of a block that race in shared memory (racecheck).
// Neither shows in a right output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluators/worker/link.hpp"

namespace cultivar {

// What its log says. Throws nothing: an unknown log is one without a summary.
struct SanitizerLog {
  bool ended = false;    // it holds a summary
  int errors = 0;        // hazards that are errors, for racecheck
  std::string findings;  // the first of them, in its words
};
SanitizerLog read_sanitizer_log(const std::string& text);

// In PATH, or where CUDA is installed as a rule; empty: nowhere.
std::filesystem::path find_sanitizer();

// One device. Not thread-safe, but interrupt() may be called from any thread.
class Sanitizing {
 public:
  explicit Sanitizing(const ServiceOptions&);

  struct Outcome {
    std::optional<Evaluation> rejection;  // of the stage `confirm`
    std::string note;                     // why nothing is known, in one line; empty: both tools had a look
  };
  // Both tools, one after the other; the first that finds something ends it.
  Outcome run(const Compiled&, const WorkerLink::Progress&);
  void interrupt();  // for good

 private:
  struct Tool {
    std::string name;
    std::filesystem::path log;
    bool after_a_loss;  // only where the one before was lost
    WorkerLink link;
  };
  std::string missing_;  // why there is none
  std::vector<std::unique_ptr<Tool>> tools_;
  double run_deadline_s_;
};

}  // namespace cultivar
