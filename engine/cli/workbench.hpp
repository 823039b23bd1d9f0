// What `evaluate` and `compare` share: a task, its workloads, and the services that compile and judge.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/cli/contender_argument.hpp"
#include "engine/cli/house.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/variant_argument.hpp"
#include "engine/workload_choice.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

// A target as the command line names it: "cpu", "cpu:8" (cores), "cuda", "cuda:1" (the number of a device).
struct TargetChoice {
  TargetKind kind = TargetKind::cpu;
  int device = 0;
  int cores = ServiceOptions{}.cores;
  std::string architecture;  // cuda, without a device: what to compile for; empty: Hopper's
};
TargetChoice parse_target(const House&,
                          const std::string&);  // InputError; MissingError when this build has no such target

// Numbers for plans where no device is asked: this machine's with so many cores, or an H100's.
Facts stand_in_facts(TargetKind, int cores);

// Compiles and judges outside a search. Ctrl-C kills what is under way.
class Workbench {
 public:
  // `runs`: the device is needed, and asked what to compile for; MissingError when there is none.
  Workbench(const House&, const Task&, TargetChoice, bool runs);

  // A variant from a file, or its rejection at lint.
  tl::expected<Variant, Evaluation> lint(const NamedSource&) const;
  // The manifest's constraints and its plan for each workload, and for the check shapes that go with them, as
  // far as the device's numbers are known without asking it (stand_in_facts). What passes may still be
  // refused by the device itself.
  tl::expected<void, Evaluation> check_plans(const NamedSource&, const Variant&,
                                             const std::vector<Workload>&) const;
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&);
  // For what is timed beside: must compile, and must claim one of the workloads at least.
  Compiled contender(const NamedSource&, const std::vector<Workload>&);
  Compiled contender(const NamedContender&,
                     const std::vector<Workload>&);  // of a library nothing is known yet
  // Stage 10, apart from all timing. Throws when the variant fails where nothing but timing is done to it.
  Profile profile(const NamedSource&, const Workload&, bool full);
  DeviceService& device() { return device_; }

 private:
  const Task& task_;
  TargetKind target_;
  Facts facts_;  // see stand_in_facts
  DeviceService device_;
  CompileService compiler_;
  bool warned_ = false;  // of what the compiler could read
  WhenInterrupted on_interrupt_;
};

}  // namespace cultivar
