// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/check_build_runs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// A check build is some ten times slower than the ordinary one. Below what a worker may be silent for.
constexpr double kSlower = 3.0;
constexpr std::size_t kMostMissing = 4;

// Faults that tell nothing of the variant: the ordinary build has just run.
bool says_nothing(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::crashed:
    case Fault::Kind::forbidden_call:
    case Fault::Kind::guard_overwritten:
    case Fault::Kind::input_changed:
      return false;
    default:
      return true;
  }
}

constexpr std::string_view kAbout =
    "The ordinary build of the same source passed on these inputs. The check build is compiled without "
    "optimization; its locals hold a pattern until they are written, and the indices of arrays are checked. "
    "Look for a local that is read before it is written, and for an index outside an array.\n";

}  // namespace

Plan check_plan(Plan plan, const Binary& check_build) {
  PlannedKernel begin;
  begin.kernel = "cultivar_check_begin";
  begin.launch.set("threads", {1});
  begin.launch.set("grid", {1, 1, 1});
  begin.launch.set("block", {1, 1, 1});
  begin.args = {{PlannedArgument::Kind::buffer, static_cast<int>(plan.buffers.size()), Dtype::i32, 0.0},
                {PlannedArgument::Kind::scalar, 0, Dtype::i64, static_cast<double>(check_build.counters)}};
  PlannedBuffer counters;
  counters.name = "the counters of the check build";
  counters.bytes = check_build.counters;
  counters.use = PlannedBuffer::Use::output;
  plan.buffers.push_back(std::move(counters));
  // What was the first kernel may not start before this one has ended.
  if (!plan.kernels.empty() && plan.kernels.front().launch.flag("programmatic_dependent"))
    plan.kernels.front().launch.set("programmatic_dependent", {0});
  // Threads of the cpu: what they share is forgotten between launches, which wait for each other.
  std::vector<PlannedKernel> kernels{std::move(begin)};
  for (PlannedKernel& kernel : plan.kernels) {
    const bool threads = kernel.launch.all().contains("threads");
    kernels.push_back(std::move(kernel));
    if (!threads) continue;
    PlannedKernel next;
    next.kernel = "cultivar_check_next";
    next.launch.set("threads", {1});
    kernels.push_back(std::move(next));
  }
  plan.kernels = std::move(kernels);
  return plan;
}

CheckBuildRuns::CheckBuildRuns(Device& device, const Task& task, const Compiled& compiled,
                               double run_deadline_s)
    : device_(device), task_(task), loose_(loosened(task, kLooser)), run_deadline_s_(run_deadline_s) {
  for (const Binary& build : compiled.check_builds) blocks_.expect(build.macros, build.blocks);
  if (!compiled.no_check_build.empty()) missing(compiled.no_check_build);
}

void CheckBuildRuns::missing(std::string why) {
  if (std::ranges::find(missing_, why) == missing_.end() && missing_.size() < kMostMissing)
    missing_.push_back(std::move(why));
}

bool CheckBuildRuns::wanted(const Compiled& compiled, const Workload& workload) const {
  if (compiled.check_builds.empty() || seconds_ > kCheckBuildSeconds) return false;
  const std::vector<std::string> own = macros(compiled.variant, task_, workload);
  if (!blocks_.knows(own) || unusable_.contains(own)) return false;
  const auto shape = of_shapes_.find(workload.name);
  if (shape != of_shapes_.end() && shape->second >= kMostRunsOfShape) return false;
  const auto ran = runs_.find(own);
  return !blocks_.complete(own) || ran == runs_.end() || ran->second < kFewestCheckBuildRuns ||
         (seconds_ < kEveryRunSeconds && task_.flops(workload) <= kSmallFlops);
}

std::optional<Evaluation> CheckBuildRuns::repeat(Stage stage, const Compiled& compiled,
                                                 const Workload& workload, const RunInputs& inputs,
                                                 const std::string& where, std::uint64_t seed,
                                                 const Compare& compare) {
  const std::vector<std::string> own = macros(compiled.variant, task_, workload);
  const Binary* build = compiled.check_build(own);
  if (build == nullptr) return std::nullopt;
  const Clock::time_point start = Clock::now();
  const auto done = [&](std::optional<Evaluation> result) {
    seconds_ += seconds_since(start);
    return result;
  };
  const double deadline_s = kSlower * run_deadline_s_;
  const auto failed = [&](const Fault& fault) -> std::optional<Evaluation> {
    kept_.reset();
    if (!says_nothing(fault.kind)) {
      Evaluation wrong = rejection_of(stage, fault, "the check build on " + where);
      wrong.diagnostics += kAbout;
      return wrong;
    }
    if (!device_.usable())
      return host_rejection(stage, HostFault::worker_lost,
                            fmt::format("the check build on {}: {}\nThe device cannot be used any more.\n",
                                        where, fault.detail));
    missing(fmt::format("the check build did not run on {}: {}", where, fault.detail));
    if (fault.kind == Fault::Kind::load_failed || fault.kind == Fault::Kind::launch_failed)
      unusable_.insert(own);
    return std::nullopt;
  };
  if (!kept_ || kept_shape_ != workload.name) {
    kept_.reset();
    auto plan = legal_plan(compiled.variant, task_, workload, device_.facts(), where);
    if (!plan) return done(std::nullopt);
    auto opened = device_.open(*build, check_plan(std::move(*plan), *build), deadline_s);
    if (!opened) return done(failed(opened.error()));
    kept_ = std::move(*opened);
    kept_shape_ = workload.name;
  }
  size_outputs(task_, workload, outputs_);
  const std::size_t own_outputs =
      static_cast<std::size_t>(std::ranges::count(task_.tensors, Role::output, &TensorSpec::role));
  outputs_.resize(own_outputs + 1);
  outputs_.back().assign(build->counters, std::byte{0});
  RunOptions options;
  options.poison_seed = derive_seed(seed, "check build");
  options.placement = derive_seed(seed, "placement of the check build");
  options.deadline_s = deadline_s;
  const auto ran = kept_->run(inputs, outputs_, options);
  if (!ran) return done(failed(ran.error()));
  ++runs_[own], ++of_shapes_[workload.name];
  if (const auto found = violation_in(outputs_.back(), build->blocks))
    return done(rejection(stage, fmt::format("{} (the check build on {})", found->text(), where),
                          found->kind == Violation::Kind::race
                              ? "Threads of one launch run at the same time and in any order: give each its "
                                "own rows and its own part of a workspace, or use two launches.\n"
                              : "An array was read or written outside its bounds.\n"));
  const std::vector<std::byte> counters = std::move(outputs_.back());
  outputs_.pop_back();
  if (compare) {
    const Comparison compared = compare(loose_, outputs_);
    if (!compared.right)
      return done(rejection(stage,
                            fmt::format("wrong result of the check build on {}: {}", where, compared.reason),
                            std::string(kAbout) + compared.diagnostics));
  }
  blocks_.note(own, counters);
  return done(std::nullopt);
}

Coverage CheckBuildRuns::coverage() const {
  Coverage coverage = blocks_.coverage();
  coverage.drawn_runs = drawn_runs;
  coverage.missing = missing_;
  if (seconds_ > kCheckBuildSeconds)
    coverage.missing.push_back(
        fmt::format("runs of check builds took {:.0f} s, and later runs were not repeated", seconds_));
  return coverage;
}

}  // namespace cultivar
