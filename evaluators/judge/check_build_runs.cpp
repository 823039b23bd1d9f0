// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/check_build_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/source_files.hpp"

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

namespace {

constexpr int kLinesBefore = 6;  // a block, in which its condition stands
constexpr std::size_t kMostNumbers = 24, kRandomShapes = 12;
constexpr std::int64_t kGreatestNumber = std::int64_t{1} << 31;
constexpr double kMostBytes = 256.0 * (1 << 20);  // of a shape with a number of the source as a dimension

class BlockHunt {
 public:
  BlockHunt(Checker& checker, CheckBuildRuns& runs, const CascadeSite& site, const EvaluateRequest& request,
            std::uint64_t seed)
      : checker_(checker),
        runs_(runs),
        site_(site),
        request_(request),
        seed_(seed),
        stream_(stream_of(seed, "unreached blocks", 0)) {}

  std::optional<Evaluation> run() {
    const std::vector<BlocksRun::Macros> incomplete = runs_.blocks().incomplete();
    for (std::size_t i = 0; i < incomplete.size(); ++i) {
      own_ = &incomplete[i];
      // What one specialisation leaves goes to the others.
      const double left = static_cast<double>(incomplete.size() - i);
      most_runs_ = runs_.drawn_runs + static_cast<int>((kMostDrawnForBlocks - runs_.drawn_runs) / left);
      const double now = seconds_since(start_);
      most_seconds_ = now + (kDrawnForBlocksSeconds - now) / left;
      if (auto wrong = hunt()) return wrong;
    }
    return std::nullopt;
  }

 private:
  bool over() const { return runs_.drawn_runs >= most_runs_ || seconds_since(start_) > most_seconds_; }
  bool done() const { return over() || runs_.blocks().complete(*own_); }

  bool usable(const Workload& w) const {
    const Variant& variant = request_.variant.variant;
    return claims(variant, site_.task, w) && macros(variant, site_.task, w) == *own_ &&
           is_legal(variant, site_.task, w, site_.device.facts());
  }

  // The shapes of this specialisation that are known, cheapest first.
  std::vector<Workload> known() const {
    std::vector<Workload> all;
    const auto add = [&](const std::vector<Workload>& some) {
      std::ranges::copy_if(some, std::back_inserter(all), [&](const Workload& w) { return usable(w); });
    };
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
      add(claimed_shapes(site_.task, stage, request_.variant.variant));
    add(request_.variant.drawn);
    if (all.empty()) add(request_.workloads);
    if (all.empty()) add(holdout_workloads(site_.task, request_.variant.variant));
    std::ranges::stable_sort(all, {}, [&](const Workload& w) { return site_.task.flops(w); });
    return all;
  }

  std::optional<Evaluation> check(const Workload& w, const CheckValues& values) {
    site_.progress({Stage::confirm, {}, fmt::format("confirm {}: blocks that have not run", w.name)});
    const auto index = static_cast<std::uint64_t>(runs_.drawn_runs++);
    return checker_.check(Stage::confirm, request_.variant, w, derive_seed(seed_, "run", index), values);
  }

  std::optional<Evaluation> hunt() {
    const std::vector<Workload> around = known();
    if (around.empty()) return std::nullopt;
    std::vector<const Workload*> bases{&around.front()};
    if (around.size() > 1) bases.push_back(&around.back());
    for (const Workload* base : bases)
      for (const StressCase& stress : site_.task.stress) {
        if (done()) return std::nullopt;
        if (!applies(site_.task, stress, *base)) continue;
        if (auto wrong = check(*base, {.stress = &stress})) return wrong;
      }
    for (const Workload& w : at_numbers(around.front())) {
      if (done()) return std::nullopt;
      if (auto wrong = check(w, {.drawn_shape = true})) return wrong;
    }
    for (const Workload& w : draw_shapes(
             site_.task, request_.variant.variant, around, limits_of(site_.task, around, 2.0), kRandomShapes,
             derive_seed(seed_, "shapes"), [&](const Workload& w) { return usable(w); })) {
      if (done()) return std::nullopt;
      const std::size_t choice = below(stream_, site_.task.stress.size() + 2);
      CheckValues values{.mixed = choice == 0, .drawn_shape = true};
      if (choice >= 2 && applies(site_.task, site_.task.stress[choice - 2], w))
        values.stress = &site_.task.stress[choice - 2];
      if (auto wrong = check(w, values)) return wrong;
    }
    return std::nullopt;
  }

  // The shape with each dimension or amount in turn at, above and below each number near the blocks.
  std::vector<Workload> at_numbers(const Workload& base) const {
    std::vector<Workload> shapes;
    const std::vector<std::int64_t> numbers =
        numbers_near(request_.variant.variant.source, runs_.blocks().unreached(*own_));
    std::vector<std::string> names;
    for (const Dimension& d : site_.task.dimensions) names.push_back(d.name);
    for (const Parameter& p : site_.task.parameters)
      if (!p.flag && !is_floating(p.type)) names.push_back(p.name);
    std::vector<Workload> limiting = request_.workloads;
    limiting.push_back(base);
    ShapeLimits limits = limits_of(site_.task, limiting, 2.0);
    limits.bytes = std::min(limits.bytes, kMostBytes);
    for (const std::int64_t number : numbers)
      for (const std::int64_t beside : {0, 1, -1})
        for (const std::string& name : names) {
          Bindings given = given_values(site_.task, base);
          given[name] = static_cast<double>(number + beside);
          const Expected<Workload> made = make_workload(site_.task, given, base.dtype, true);
          if (!made || !usable(*made)) continue;
          const std::vector<Workload> one{*made};
          const ShapeLimits own = limits_of(site_.task, one, 1.0);
          if (own.flops > limits.flops || own.bytes > limits.bytes) continue;
          shapes.push_back(*made);
        }
    return shapes;
  }

  Checker& checker_;
  CheckBuildRuns& runs_;
  const CascadeSite& site_;
  const EvaluateRequest& request_;
  std::uint64_t seed_;
  mutable RandomStream stream_;
  const BlocksRun::Macros* own_ = nullptr;
  int most_runs_ = 0;  // with those of the specialisations before
  double most_seconds_ = 0.0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::vector<std::int64_t> numbers_near(std::string_view source, const std::vector<CodeBlock>& blocks) {
  const SourceFiles files = split_source(source);
  const CommentSyntax& comments = comments_in(source);
  std::vector<std::int64_t> numbers;
  for (int before = 0; before <= kLinesBefore; ++before)
    for (const CodeBlock& block : blocks) {
      std::string_view text = files.main;
      for (const HeaderFile& header : files.headers)
        if (header.name == block.file) text = header.text;
      const std::vector<std::string_view> lines = lines_of(text);
      const int first = std::max(block.first_line - before, 1),
                last = before == 0 ? block.last_line : block.first_line - before;
      for (int line = first; line <= last && line <= static_cast<int>(lines.size()); ++line)
        for (const std::int64_t number : literals_in(lines[static_cast<std::size_t>(line - 1)], comments))
          if (number <= kGreatestNumber && std::ranges::find(numbers, number) == numbers.end())
            numbers.push_back(number);
    }
  if (numbers.size() > kMostNumbers) numbers.resize(kMostNumbers);
  return numbers;
}

std::optional<Evaluation> check_unreached_blocks(Checker& checker, CheckBuildRuns& runs,
                                                 const CascadeSite& site, const EvaluateRequest& request,
                                                 std::uint64_t seed) {
  return BlockHunt(checker, runs, site, request, seed).run();
}

}  // namespace cultivar
