// What the engine sees of the workers: compile here, judge there. Each service owns worker processes (own process
// groups, deadlines, fresh after any fault) and speaks the framed protocol of protocol.hpp to them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/gate.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar {

struct ServiceOptions {
  TargetKind target = TargetKind::cpu;
  std::filesystem::path programs;         // folder of cultivar-worker-*; default: beside the running program
  std::vector<std::string> launcher;      // put before the worker's command line: {} = plain child, {"srun", ...}
  std::filesystem::path cache;            // compiled binaries and measured ceilings; shared by runs
  std::filesystem::path task_folder;
  int device = 0;
  int compile_workers = 1;
  double compile_deadline_s = 60.0;       // for one variant and one assignment of its macros
  double run_deadline_s = 10.0;           // for one launch of a variant's whole plan
  int recycle_after = 200;                // evaluations before a worker is replaced anyway
};

// A variant with a binary for each of its macro assignments.
struct Compiled {
  Variant variant;
  std::vector<Binary> binaries;
};

// Thread-safe: up to `compile_workers` callers are served at once, others wait.
class CompileService {
 public:
  explicit CompileService(ServiceOptions);
  ~CompileService();
  // Stages 1 and 2 for every workload given. A rejected variant comes back as its Evaluation.
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&);
  std::string compiler_identity();
  void interrupt();  // from any thread: kills the workers; calls in flight return a rejection "interrupted"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Sampling {
  int screening_samples = 20;
  int max_samples = 60;
  double max_seconds = 20.0;    // of timed work for one workload
  int oracle_rows = 24;         // secret rows checked after each timed run
};

struct EvaluateRequest {
  Compiled variant;
  std::vector<Workload> workloads;
  Stage stop_after = Stage::measure;   // or confirm: fresh process, new seeds, and these workloads besides:
  std::vector<Workload> holdout;
  std::vector<std::pair<std::string, Compiled>> contenders;  // timed interleaved with the variant
  Sampling sampling;
};

struct GateRequest {
  Compiled challenger, incumbent, control;
  std::vector<Workload> workloads;
  GateOptions options;
  std::uint64_t seed = 0;
};

struct GateReport {
  Decision decision;
  std::vector<std::string> trouble;    // a side that failed during the duel; the decision is then `worse` or `undecided`
  std::vector<double> challenger_seconds, incumbent_seconds;  // medians by workload
  double seconds = 0.0;
  bool worker_lost = false;
};

struct DeviceInfo {
  std::string description, isolation;
  Facts facts;
  Ceilings ceilings;
};

// One device. Not thread-safe, but interrupt() may be called from any thread.
class DeviceService {
 public:
  explicit DeviceService(ServiceOptions);
  ~DeviceService();
  Expected<DeviceInfo> info();
  // Never throws for what a candidate does: crashes, hangs and lies come back as rejections.
  // An Error means that no worker could be had at all (program missing, launcher failed).
  Expected<Evaluation> evaluate(const EvaluateRequest&, const std::function<void(const std::string&)>& progress = {});
  Expected<GateReport> gate(const GateRequest&, const std::function<void(const std::string&)>& progress = {});
  void interrupt();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
