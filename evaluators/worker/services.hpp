// What the engine sees of the workers: compile here, judge there. Each service owns worker processes (own
// process groups, deadlines, fresh after any fault) and speaks the framed protocol of protocol.hpp to them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/worker/requests.hpp"

namespace cultivar {

struct ServiceOptions {
  TargetKind target = TargetKind::cpu;
  std::filesystem::path programs;     // folder of cultivar-worker-*; default: beside the running program
  std::vector<std::string> launcher;  // put before the worker's command line: {} = plain child, {"srun", ...}
  std::filesystem::path cache;        // compiled binaries and measured ceilings; shared by runs
  std::filesystem::path task_folder;
  int device = 0;
  std::string architecture;  // cuda: what is compiled for, as "sm_90a"; empty: Hopper's. See architecture_of
  int cores = 2;             // of the cpu target; 0: all. Quick workloads are sized for two
  int compile_workers = 1;
  double compile_deadline_s = 60.0;  // for one variant and one assignment of its macros
  double run_deadline_s = 10.0;      // for one launch of a variant's whole plan
  double start_deadline_s = 120.0;   // for a worker to get ready: a launcher may queue, an oracle is built
  int recycle_after = 200;           // evaluations before a worker is replaced anyway
};

// Thread-safe: up to `compile_workers` callers are served at once, others wait.
class CompileService {
 public:
  explicit CompileService(ServiceOptions);
  ~CompileService();
  // Stages 1 and 2 for every workload given and for the check shapes (see Breadth). A rejected variant comes
  // back as its Evaluation. Throws MissingError when no worker or compiler can be had at all.
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             Breadth = Breadth::searching);
  // A contender's source: may include its library's headers; compiled for the workloads that it claims alone.
  tl::expected<Compiled, Evaluation> compile_contender(const Variant&, const std::vector<Workload>&);
  CompilerInfo compiler_info();  // throws MissingError likewise
  std::string compiler_identity() { return compiler_info().identity; }
  // From any thread: kills the workers. Calls in flight, and all later ones, return a rejection
  // "interrupted".
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
  Expected<DeviceInfo> info();
  // On a GPU a confirmation ends with compute-sanitizer's memcheck and racecheck, where it is installed.
  // Never throws for what a candidate does: crashes, hangs and lies come back as rejections.
  // An Error means that no worker could be had at all (program missing, launcher failed).
  Expected<Evaluation> evaluate(const EvaluateRequest&,
                                const std::function<void(const std::string&)>& progress = {});
  Expected<GateReport> gate(const GateRequest&, const std::function<void(const std::string&)>& progress = {});
  // All parts of a profile, those with instruments in processes of their own, so that nothing is timed in a
  // process that has profiled. What failed stands in `missing`.
  Expected<ProfilePartial> profile(const ProfileRequest&,
                                   const std::function<void(const std::string&)>& progress = {});
  // From any thread: kills the worker. The call in flight, and all later ones, return an Error whose stage is
  // "interrupted".
  void interrupt();

 private:
  void sanitize(const EvaluateRequest&, Evaluation&, const std::function<void(const std::string&)>& progress);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
