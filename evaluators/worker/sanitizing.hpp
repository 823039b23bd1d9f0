// A variant's small shapes once more, under NVIDIA's compute-sanitizer: what it reads or writes beside its
// buffers and its shared memory (memcheck), and threads of a block that race in shared memory (racecheck).
// Neither shows in a right output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/worker/link.hpp"

namespace cultivar {

// What its log says. Throws nothing: an unknown log is one without a summary.
struct SanitizerLog {
  bool ended = false;    // it holds a summary
  int errors = 0;        // hazards that are errors, for racecheck; as many as an int holds at most
  std::string findings;  // the first of them, in its words
};
SanitizerLog read_sanitizer_log(const std::string& text);

// In PATH, or where CUDA is installed as a rule; empty: nowhere.
std::filesystem::path find_sanitizer();

// What came of one run under a tool.
struct SanitizerLook {
  enum class Kind {
    clean,
    found,
    failed,  // the variant did not pass there what it has passed without it
    lost,    // no answer or no summary: the tool or the worker came to an end of its own
    interrupted
  } kind = Kind::clean;
  std::string reason = {};  // one line; empty when clean
  std::string findings = {};
};

struct SanitizerOutcome {
  std::optional<Evaluation> rejection;  // of the stage `confirm`
  std::string note;                     // why nothing is known, in one line; empty: the tools had a look
};

// One tool: its forms, of which each is asked only where the one before was lost, and all once more when that
// came to nothing. A kernel that notices the tool need only fail to keep it from looking, so what fails there
// is refused. Unless the tool fails with `control` as well (nullptr: with no kernel at all): then it is the
// tool that does not work here, which is told in the note.
using SanitizerForm = std::function<SanitizerLook(const Compiled*)>;
SanitizerOutcome examine(const std::string& tool, const std::vector<SanitizerForm>& forms,
                         const Compiled& variant, const Compiled* control);

// One device. Not thread-safe, but interrupt() may be called from any thread.
class Sanitizing {
 public:
  explicit Sanitizing(const ServiceOptions&);

  // Both tools, one after the other; the first that refuses it ends it.
  SanitizerOutcome run(const Compiled&, const WorkerLink::Progress&);
  void interrupt();  // for good

 private:
  struct Form {
    std::string tool;
    std::filesystem::path log;
    WorkerLink link;
  };
  SanitizerLook look(Form&, const Compiled*, const WorkerLink::Progress&);

  std::string missing_;                                    // why there is none
  std::vector<std::vector<std::unique_ptr<Form>>> tools_;  // each in the order its forms are asked
  std::optional<Compiled> control_;                        // the last that all tools found clean
  double run_deadline_s_;
};

}  // namespace cultivar
