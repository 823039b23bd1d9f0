// SPDX-License-Identifier: Apache-2.0
// An evaluator that measures nothing: a variant's speed is a fixed function of its tunables, with noise
// derived from its identity, so that equal variants always get equal results. Tunable values trigger compile
// failures, crashes, duplicates and lost workers. The duels run through the real gate.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/search/evaluator.hpp"

namespace cultivar::testing {

struct Simulation {
  double noise = 0.01;                          // relative, of fitness
  double gate_noise = 0.0;                      // in addition, of the runs of duels
  double pace = 1.0;                            // factor of evaluations, not of duels: lower for a hot card
  std::function<double(const Variant&)> seems;  // fitness in evaluations, not in duels, if set
  int cool = 0;                                 // number of evaluations before it is hot
  int hot = 1 << 30;                            // number of evaluations while it is hot
  double load = 1.0;  // the host is shared: each evaluation is slower by a factor of up to this
  double compile_s = 0.0, evaluate_s = 0.0, gate_s = 0.0;  // real sleep times
  double confirm_s = 0.0;                                  // in addition to evaluate_s
  int samples = 3;                                         // raw samples per workload
  bool quiet = false;                                      // timing_needs_quiet
  int compile_workers = 2;
  // Called at the start of each evaluation; may throw, count or ask for a stop.
  std::function<void(const Variant&)> on_evaluate;
  std::function<Expected<Evaluation>(const Variant&)> evaluate_instead;  // if set
  std::function<bool(const Variant&, Stage stop_after)> is_late;         // timed out, if set
  // A fault of the host, by the stage up to which it is asked for; Stage::gate: in a duel. If set.
  std::function<std::optional<HostFault>(const Variant&, Stage stop_after)> host_fault;
  std::function<std::optional<HostFault>(const Variant&)> compile_fault;  // the same for compilers
  std::function<double(const Variant&)> spread_of;  // of an evaluation: its quartiles' distance, if set
  std::function<void(const GateRequest&, int blocks)> on_block;  // after each block of a duel, if set
  bool refuse_confirmation = false;
  // The rms error of a confirmed variant, as a multiple of the permitted one, if set; 0: not measured.
  std::function<double(const Variant&)> error_of;
  bool narrow = false;  // UNROLL=4, the best, does not compile for all shapes that a confirmation checks
  std::function<Expected<ProfilePartial>(const Variant&)> profile_instead;  // if set
  std::function<bool(int device)> has_no_worker;                            // if set
  std::function<bool(int device)> does_not_start;                           // if set: its worker
  // Starts the first worker: what devices() fails with, if it does.
  std::function<Expected<void>(const Evaluator::WhileStarting&)> start;
  int device_workers = 1;
  Facts facts = {
      {"num_cores", 8.0}, {"l1_bytes", 32768.0}, {"l2_bytes", 1048576.0}, {"l3_bytes", 33554432.0}};
  Ceilings ceilings = {};
};

// The true speed of softmax_source() by its tunables.
double true_fitness(const Variant&);

class SimulatedEvaluator : public Evaluator {
 public:
  explicit SimulatedEvaluator(Simulation simulation) : simulation_(std::move(simulation)) {}

  Expected<std::vector<DeviceInfo>> devices() override;
  void while_starting(WhileStarting told) override { while_starting_ = std::move(told); }
  std::string compiler_identity() override { return "simulated compiler 1"; }
  bool timing_needs_quiet() const override { return simulation_.quiet; }
  int compile_workers() const override { return simulation_.compile_workers; }
  int device_workers() const override { return simulation_.device_workers; }
  Expected<void> prepare(int device) override {
    if (simulation_.does_not_start && simulation_.does_not_start(device))
      return failure("worker measure", "it was killed while it started");
    return {};
  }
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&, Breadth) override;
  Compiled contender(const std::string& library) override {
    Compiled made;
    made.library = made.variant.manifest.name = library;
    return made;
  }
  Expected<Evaluation> evaluate(int device, const EvaluateRequest&, const Note&) override;
  Expected<GateReport> gate(int device, const GateRequest&, const Note&) override;
  Expected<ProfilePartial> profile(int device, const ProfileRequest&, const Note&) override;
  void interrupt() override;

 private:
  void sleep(double seconds) const;
  Simulation simulation_;
  WhileStarting while_starting_;
  mutable std::mutex sleeping_;
  mutable std::condition_variable interruption_;
  std::atomic<bool> interrupted_{false};
  std::atomic<int> evaluations_{0};
};

// A variant source of the softmax task with tunables. `name` distinguishes sources; one with "fast" in it is
// 1.5 times as fast, one with "fastest" 1.6 times.
//   UNROLL 16 does not compile; BLOCK 96 crashes; UNUSED changes the source's knobs but not its machine code.
std::string softmax_source(const std::string& name);

// A folder that is removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A configuration for the softmax task with these sources as seeds, which are written below `folder`.
Config softmax_config(const std::filesystem::path& folder, const std::vector<std::string>& overrides = {});

}  // namespace cultivar::testing
