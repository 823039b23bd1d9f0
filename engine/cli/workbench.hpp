// SPDX-License-Identifier: Apache-2.0
// Shared by `evaluate`, `compare` and `profile`: a task, its workloads, and the services that compile and
// evaluate.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/variant_argument.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

// A target as given on the command line: "cpu", "cpu:8" (cores), "cuda", "cuda:1" (device number).
struct TargetChoice {
  Target kind = usual_target();
  int device = 0;
  int cores = ServiceOptions{}.cores;
  std::string
      architecture;  // without a device: the architecture to compile for; empty: the target's usual one
  std::string python = ServiceOptions{}.python;
  double prepare_deadline_s = ServiceOptions{}.prepare_deadline_s;
};
TargetChoice parse_target(const InstallationPaths&,
                          const std::string&);  // InputError; MissingError when this build has no such target

// How targets are written, for help: "cpu[:CORES], cuda[:N] or opencl[:CORES]".
std::string targets_in_help();
// The targets whose code is compiled for one architecture, for messages: "cuda".
std::string targets_with_architectures();

// A rejection as an exception, for a command that cannot go on: InputError at lint, else std::runtime_error.
[[noreturn]] void raise_rejection(const NamedSource&, const Evaluation&);

// Compiles and evaluates outside a search. Ctrl-C kills the work in progress.
class Workbench {
 public:
  // `runs`: kernels will run, so the device is queried for its architecture; MissingError when there is none.
  Workbench(const InstallationPaths&, const Task&, TargetChoice, bool runs);

  // The variant of a source, or its rejection at lint.
  tl::expected<Variant, Evaluation> lint(const NamedSource&) const;
  // Checks the manifest's constraints and its plan for each workload and its check shapes, with the facts
  // that are known without querying a device. The real device may still reject a variant that passes.
  tl::expected<void, Evaluation> check_plans(const NamedSource&, const Variant&,
                                             const std::vector<Workload>&) const;
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             Breadth = Breadth::searching);
  // A contender must compile and claim at least one workload.
  tl::expected<Compiled, Evaluation> contender_or_rejection(const NamedSource&, const std::vector<Workload>&);
  Compiled contender(const NamedSource&, const std::vector<Workload>&);
  Compiled contender(const NamedContender&,
                     const std::vector<Workload>&);  // a library is not loaded here
  // Stage 10, separate from all timing. Throws when the variant fails to compile or to run.
  Profile profile(const NamedSource&, const Workload&, bool full);
  DeviceService& device() { return device_; }

 private:
  const Task& task_;
  Target target_;
  Facts facts_;  // TargetTraits::stand_in_facts
  DeviceService device_;
  CompileService compiler_;
  bool warned_ = false;  // about the compiler's weak isolation
  WhenInterrupted on_interrupt_;
};

}  // namespace cultivar
