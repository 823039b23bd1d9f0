// SPDX-License-Identifier: Apache-2.0
// The engine's interface to the workers: compilation and measurement. Each service owns worker processes
// (separate process groups, deadlines, replaced after any fault) and talks to them with the framed protocol
// of protocol.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/judge/requests.hpp"
#include "evaluators/system/interpreter.hpp"

namespace cultivar {

struct ServiceOptions {
  Target target = usual_target();
  std::filesystem::path programs;  // folder of cultivar-worker-*; default: the running program's folder
  // Prefixes of the workers' command lines, {"srun", ...}; {}: a plain child process.
  std::vector<std::string> launcher = {}, compile_launcher = {};  // of measuring and of compile workers
  double queue_deadline_s = 21600.0;  // for a launcher to start a worker: a scheduler may let it wait
  std::filesystem::path cache;        // compiled binaries and measured peak rates; shared by runs
  std::filesystem::path task_folder;
  int device = 0;
  std::string
      architecture;  // the architecture to compile for, such as "sm_90a"; empty: the target's usual one
  int cores = 2;     // where kernels run on the host; 0: all. The quick workloads are sized for two
  int compile_workers = 1;
  double compile_deadline_s = 60.0;       // for one variant and one assignment of its macros
  double run_deadline_s = 10.0;           // for one launch of a variant's whole plan
  std::string python = default_python();  // for Python programs: contenders and references
  double prepare_deadline_s = 600.0;      // for a contender to prepare one workload
  double start_deadline_s = 120.0;        // for a worker to get ready: the oracle is built
  int recycle_after = 200;                // evaluations before a worker is replaced even without a fault
};

// Check builds of one variant: of a kernel with dozens of specialisations they would take longer to compile
// than all else.
inline constexpr std::size_t kMostCheckBuilds = 8;

// Thread-safe: up to `compile_workers` callers are served at once; others wait.
class CompileService {
 public:
  explicit CompileService(ServiceOptions);
  ~CompileService();
  // Stages 1 and 2 for the given workloads and for the check shapes (see Breadth). A rejected variant is
  // returned as its Evaluation. Throws MissingError if no worker or compiler can be started.
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             Breadth = Breadth::searching);
  // Of a language; nullptr: the first of the target. Throws MissingError as above.
  CompilerInfo compiler_info(Language = nullptr);
  std::string compiler_identity() { return compiler_info().identity; }
  // May be called from any thread: kills the workers. Calls in progress and all later ones return a rejection
  // of kind interrupted.
  void interrupt();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One device. Not thread-safe, but interrupt() may be called from any thread.
class DeviceService {
 public:
  explicit DeviceService(ServiceOptions);
  ~DeviceService();
  // `progress`: as in the other calls, the steps of a worker that has to be started first.
  Expected<DeviceInfo> info(const std::function<void(const std::string&)>& progress = {});
  // Starts the worker if it does not run. With a launcher it may run on another machine than before: if its
  // device is of another kind than this, it is stopped, and every call is an Error.
  Expected<void> open(const DeviceInfo& expected);
  // The device on which the last worker ran that was stopped for being of another kind, until one is right.
  const std::optional<DeviceInfo>& unlike() const;
  // A confirmation ends with the device's second look, if it has one.
  // Never throws because of a candidate: crashes, hangs and forged results are returned as rejections. An
  // Error means that no worker could be started (program missing, launcher failed).
  Expected<Evaluation> evaluate(const EvaluateRequest&,
                                const std::function<void(const std::string&)>& progress = {});
  Expected<GateReport> gate(const GateRequest&, const std::function<void(const std::string&)>& progress = {});
  // All parts of a profile. Parts with instruments run in separate processes, so that nothing is timed in a
  // process that has profiled. Parts that failed are listed in `missing`.
  Expected<ProfilePartial> profile(const ProfileRequest&,
                                   const std::function<void(const std::string&)>& progress = {});
  // May be called from any thread: kills the worker. The call in progress and all later ones return an Error
  // of kind interrupted.
  void interrupt();

 private:
  void look_again(const EvaluateRequest&, Evaluation&,
                  const std::function<void(const std::string&)>& progress);
  struct State;
  std::unique_ptr<State> state_;
};

// What a kind of device looks for in a kernel that all checks have accepted: errors that no output reveals.
// The device's row makes it; a confirmation ends with it. For one device. Not thread-safe, but interrupt()
// may be called from any thread.
class SecondLook {
 public:
  struct Outcome {
    std::optional<Evaluation> rejection;  // at stage `confirm`
    std::string note;                     // why there is no result, in one line; empty if there is one
    bool lost = false;  // rejected because a tool or its worker ended unexpectedly each time
  };
  using Progress = std::function<void(const std::string&)>;

  virtual ~SecondLook() = default;
  virtual void prepare() = 0;  // begins to start, which takes seconds
  // On small shapes in the dtypes of the workloads. A progress function is called by one thread at a time.
  virtual Outcome run(const Compiled&, const std::vector<Workload>&, const Progress&) = 0;
  virtual void interrupt() = 0;  // permanent
};

}  // namespace cultivar
