// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/cascade.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluators/judge/check_build_runs.hpp"
#include "evaluators/judge/claims.hpp"
#include "evaluators/judge/contender_side.hpp"
#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/judge/large_check.hpp"
#include "evaluators/judge/sampler.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/judge/specialisation_checks.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {
namespace {

// The largest inputs in which the check of every row plants patterns. Drawing them takes about two seconds.
constexpr std::size_t kMixedBytes = std::size_t{512} << 20;

// Before anything runs: checks what the variant claims, and that something of it can be checked.
std::optional<Evaluation> lint(const Task& task, const EvaluateRequest& request, const Facts& facts,
                               std::uint64_t seed) {
  const Variant& variant = request.variant.variant;
  if (auto wrong = claim_trouble(task, variant, request.workloads, seed)) return wrong;
  if (auto wrong = illegal_on_check_shapes(task, variant, facts)) return wrong;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::edge})
    for (const Workload& w : claimed_shapes(task, stage, variant))
      if (request.variant.binary(macros(variant, task, w)) != nullptr) return std::nullopt;
  const std::vector<Dtype>& computed = variant.manifest.target->dtypes;
  std::string known;
  for (const Dtype each : computed) known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(each));
  for (const Workload& w : request.workloads)
    if (std::find(computed.begin(), computed.end(), w.dtype) == computed.end())
      return rejection(Stage::lint, fmt::format("the variant cannot be checked in {}", name_of(w.dtype)),
                       fmt::format("On this target kernels are checked only in {}: use workloads in one of "
                                   "these.\n",
                                   known));
  return rejection(Stage::lint, "the variant claims none of the check shapes",
                   "The variant cannot be checked: `requires` excludes every check shape of the task. Widen "
                   "it; a kernel for only the measured shapes is not accepted.\n");
}

class Measuring {  // requires a site with a stock
 public:
  Measuring(const CascadeSite& site, const EvaluateRequest& request, std::uint64_t seed)
      : site_(site), request_(request), seed_(seed) {}

  // Adds to the evaluation's workloads; returns a rejection if the variant fails.
  std::optional<Evaluation> measure(std::size_t index, Evaluation& evaluation) {
    const Workload& workload = request_.workloads[index];
    const std::size_t all = request_.workloads.size();
    const std::string step = fmt::format("measure {}", workload.name) +
                             (all > 1 ? fmt::format(" ({} of {})", index + 1, all) : "");
    const auto tell = [&] { site_.progress({Stage::measure, {}, step}); };
    tell();
    const auto side = [&](const std::string& name, const Compiled& compiled) {
      return SampledSide{name, [this, &workload, &compiled] {
                           return open_side(site_, Stage::measure, compiled, workload);
                         }};
    };
    std::vector<SampledSide> sides;
    sides.push_back(side("variant", request_.variant));
    const std::uint64_t seed = derive_seed(seed_, "measure", index);
    for (const auto& [name, contender] : request_.contenders) {
      if (!contender.is_library()) {
        if (claims(contender.variant, site_.task, workload)) sides.push_back(side(name, contender));
        continue;
      }
      if (unusable_.contains(name)) continue;
      if (const auto wrong = check_contender(site_, Stage::measure, contender, workload,
                                             derive_seed(seed, "contender " + name))) {
        const bool unusable = wrong->stage == Stage::lint;
        if (unusable) unusable_.insert(name);
        using Kind = ContenderTrouble::Kind;
        evaluation.add({name, unusable ? Kind::unusable : Kind::failed, wrong->reason, wrong->diagnostics});
      } else {
        sides.push_back(side(name, contender));
      }
    }
    if (request_.incumbent && claims(request_.incumbent->variant, site_.task, workload)) {
      sides.push_back(side("incumbent", *request_.incumbent));
      sides.back().is_incumbent = true;
    }
    TimedRuns runs(site_.task, site_.oracle, workload, seed, request_.sampling.oracle_rows,
                   site_.run_deadline_s, cores_of(site_.device.facts()), site_.stock,
                   input_source_of(site_.device));
    if (site_.device.apart_from_host()) runs.work_beside_runs(request_.stop_after >= Stage::confirm);
    const auto incumbent = request_.incumbent_us.find(workload.name);
    if (auto wrong = sample(runs, sides, request_.sampling,
                            incumbent == request_.incumbent_us.end() ? 0.0 : incumbent->second,
                            request_.give_up, seed, tell, request_.variant.variant.manifest.target->warm_up,
                            request_.stop_after >= Stage::confirm))
      return wrong;
    WorkloadResult result = summarise(site_.task, workload, request_.variant.variant.manifest.target, sides);
    for (const SampledSide& s : sides)
      if (s.trouble && !s.is_incumbent)
        evaluation.add({s.name, ContenderTrouble::Kind::failed, s.trouble->reason, s.trouble->diagnostics});
    for (const SampledSide& s : sides)
      if (s.discarded > 0)
        evaluation.diagnostics += fmt::format("{} on {}: {} samples did not count, the last because {}\n",
                                              s.name, workload.name, s.discarded, s.why_discarded);

    evaluation.workloads.push_back(std::move(result));  // kept for audit even if it is impossible
    const double seconds = evaluation.workloads.back().median_us * 1e-6;
    if (const auto why = impossibly_fast(site_.task, workload, site_.device, seconds))
      return rejection(Stage::measure, "impossibly fast on " + workload.name, *why);
    return std::nullopt;
  }

 private:
  const CascadeSite& site_;
  const EvaluateRequest& request_;
  std::uint64_t seed_;
  std::set<std::string> unusable_;  // contenders that do not load; each is reported once
};

// A confirmation takes a minute or two: what it says of itself begins with how far it is.
class ConfirmationSteps {
 public:
  ConfirmationSteps(const EvaluateRequest& request, Announce told) : told_(std::move(told)) {
    count_ = request.workloads.empty() ? 9 : request.checks_only ? 10 : 11;
  }
  void next() { step_ = std::min(step_ + 1, count_); }
  void tell(Activity doing) const {
    doing.text = fmt::format("step {} of {}: {}", step_, count_, doing.text);
    told_(doing);
  }

 private:
  Announce told_;
  int step_ = 0, count_ = 0;
};

// Sets of inputs for each distribution, by shape. Their number is odd, for the median.
constexpr std::uint64_t kDraws[most_shapes_for_errors] = {2, 1};
constexpr double kFlopsOfASet = 1e7;  // limit for one of them; of larger shapes, blocks of rows
constexpr double kMost = 1e9;         // of a contender whose values are not finite
constexpr const char* kOrdinary = "ordinary";

// One side's errors on one distribution.
class Tally {
 public:
  void add(const std::vector<OutputErrors>& outputs) {
    double rms = 0.0, allowed = 0.0;
    for (const OutputErrors& o : outputs) {
      wrong_ += o.wrong, integers_ += o.integers;
      rms = std::max(rms, std::min(kMost, o.error.rms / o.legal.rms));
      max_ = std::max(max_, std::min(kMost, o.error.max / o.legal.max));
      allowed = std::max(allowed, std::min(kMost, o.error.rms / (o.legal.rms + o.floor.rms)));
    }
    square_sum_ += rms * rms;
    allowed_.push_back(allowed);
  }
  bool empty() const { return allowed_.empty(); }
  RelativeError error() const {
    return {std::sqrt(square_sum_ / static_cast<double>(allowed_.size())), max_, wrong_, integers_};
  }
  double of_allowed() const { return median(allowed_); }

 private:
  double square_sum_ = 0.0, max_ = 0.0;
  std::int64_t wrong_ = 0, integers_ = 0;
  std::vector<double> allowed_;
};

struct Subject {
  std::string name;
  const Compiled* compiled;
  std::unique_ptr<Session> session = {};  // null: it does not take the current shape
};

std::vector<Workload> shapes_of(const Task& task, const EvaluateRequest& request) {
  std::vector<Workload> shapes = shapes_for_errors(task, request.variant.variant, request.workloads);
  std::erase_if(shapes, [&](const Workload& w) {
    return request.variant.binary(macros(request.variant.variant, task, w)) == nullptr;
  });
  if (shapes.size() > most_shapes_for_errors) shapes.resize(most_shapes_for_errors);
  return shapes;
}

// How exact a variant and its contenders are, on the task's stress shapes: for its ordinary fills and for
// each stress case, on secret inputs that are the same for all sides. The variant must have passed its
// checks. Contenders that do not take a shape have no figure there. Throws ContenderBrokeDevice.
std::vector<Exactness> measure_exactness(const CascadeSite& site, const EvaluateRequest& request,
                                         std::uint64_t seed) {
  const Task& task = site.task;
  const std::vector<Workload> shapes = shapes_of(task, request);  // outlives the sessions, which refer to it
  std::vector<Subject> subjects;
  subjects.push_back({"", &request.variant});
  for (const auto& [name, contender] : request.contenders) subjects.push_back({name, &contender});
  std::vector<std::pair<std::string, const std::map<std::string, Fill>*>> distributions;
  static const std::map<std::string, Fill> plain;
  distributions.emplace_back(kOrdinary, &plain);
  for (const StressCase& stress : task.stress) distributions.emplace_back(stress.name, &stress.fills);

  std::vector<std::map<std::string, Tally>> tallies(distributions.size());
  std::uint64_t run = 0;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const Workload& shape = shapes[s];
    for (Subject& each : subjects) {
      each.session.reset();
      if (!each.compiled->is_library() &&
          (!claims(each.compiled->variant, task, shape) ||
           each.compiled->binary(macros(each.compiled->variant, task, shape)) == nullptr))
        continue;
      if (auto opened = open_side(site, Stage::stress, *each.compiled, shape))
        each.session = std::move(*opened);
    }
    const RowLayout layout(task, shape);
    Oracle oracle(site.oracle, task, shape, cores_of(site.device.facts()));
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t d = 0; d < distributions.size(); ++d) {
      site.progress({Stage::stress, {}, fmt::format("exactness {} {}", shape.name, distributions[d].first)});
      for (std::uint64_t draw = 0; draw < kDraws[s]; ++draw, ++run) {
        const Inputs inputs = make_inputs(&site.oracle, task, shape, derive_seed(seed, "inputs", run),
                                          *distributions[d].second);
        const std::vector<std::int64_t> rows =
            rows_to_check(task, shape, layout, kFlopsOfASet, derive_seed(seed, "rows", run));
        const auto of = [&](RowFunction f) { return oracle.rows(f, inputs.view(), rows); };
        const std::vector<double> exact = of(site.oracle.exact());
        const std::vector<double> rounded =
            site.oracle.rounded() == nullptr ? exact : of(site.oracle.rounded());
        for (Subject& each : subjects) {
          if (!each.session) continue;
          size_outputs(task, shape, outputs);
          RunOptions options;
          options.deadline_s = site.run_deadline_s;
          options.poison_seed = derive_seed(seed, "poison", run);
          ExpectedRows expected{rows, exact, {}};
          expected.right_indices = oracle.index_rule(inputs.view());
          if (each.session->run(inputs.bytes, outputs, options))
            tallies[d][each.name].add(output_errors(task, layout, outputs, expected, rounded));
          else
            each.session.reset();
        }
      }
    }
  }
  std::vector<Exactness> all;
  for (std::size_t d = 0; d < distributions.size(); ++d) {
    Exactness one{distributions[d].first, {}};
    for (const auto& [name, tally] : tallies[d])
      if (name.empty())
        one.error = tally.error(), one.of_allowed = tally.of_allowed();
      else
        one.contenders[name] = tally.error();
    if (tallies[d].contains("")) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::string machine_code(const Task& task, const Compiled& compiled, const std::vector<Workload>& workloads) {
  std::string all;
  for (const Workload& w : workloads)
    if (const Binary* binary = compiled.binary(macros(compiled.variant, task, w)); binary != nullptr)
      all += binary->machine_code + "\n";
  return sha256_hex(all);
}

Evaluation run_cascade(const CascadeSite& given, const EvaluateRequest& request) {
  const std::uint64_t seed = request.seed != 0 ? request.seed : secret_seed();
  CascadeSite site = given;
  if (!site.stock) site.stock = std::make_shared<TimingStock>();
  ConfirmationSteps steps(request, given.progress);
  if (request.stop_after >= Stage::confirm)
    site.progress = [&steps](const Activity& doing) { steps.tell(doing); };
  site.stock->stretches->renew(derive_seed(seed, "stretches"));
  Evaluation evaluation;
  evaluation.input_seed = seed;
  evaluation.compile_seconds = request.variant.compile_seconds;
  evaluation.machine_code = machine_code(site.task, request.variant, request.workloads);
  if (!request.variant.binaries.empty()) evaluation.resources = request.variant.binaries.front().resources;
  if (!request.workloads.empty())
    if (const Binary* binary =
            request.variant.binary(macros(request.variant.variant, site.task, request.workloads[0])))
      evaluation.resources = binary->resources;

  const auto rejected = [&](const Evaluation& why) {
    evaluation.verdict = Evaluation::Verdict::rejected;
    evaluation.stage = why.stage;
    evaluation.reason = why.reason;
    evaluation.diagnostics = why.diagnostics + evaluation.diagnostics;
    evaluation.late = why.late;
    evaluation.host_fault = why.host_fault;
    evaluation.fitness = 0.0;
    return evaluation;
  };
  const auto reached = [&](Stage stage) {
    evaluation.verdict = Evaluation::Verdict::measured;
    evaluation.stage = stage;
    return stage >= request.stop_after;
  };

  if (!request.timed_only)
    if (auto wrong = lint(site.task, request, site.device.facts(), derive_seed(seed, "claims")))
      return rejected(*wrong);
  std::vector<Dtype> timed;
  if (request.small_shapes)
    for (const Workload& w : request.workloads) timed.push_back(w.dtype);
  CheckBuildRuns check_builds(site.device, site.task, request.variant, site.run_deadline_s);
  CheckBuildRuns* const repeated = request.stop_after >= Stage::confirm ? &check_builds : nullptr;
  Checker checker(site.device, site.task, site.oracle,
                  {.run_deadline_s = site.run_deadline_s,
                   .stock = site.stock,
                   .awaited = request.stop_after >= Stage::confirm,
                   .dtypes = std::move(timed),
                   .thresholds = source_numbers(request.variant.variant).thresholds,
                   .check_builds = repeated});
  Clock::time_point start = Clock::now();
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::determinism, Stage::edge}) {
    if (request.timed_only) break;
    steps.next();
    if (request.small_shapes && stage != Stage::smoke && stage != Stage::edge) continue;
    auto wrong = checker.run_stage(stage, request.variant, seed, site.progress);
    if (!wrong && stage == Stage::stress && !request.small_shapes)
      wrong = check_stressed_specialisations(checker, site.task, request.variant, request.workloads,
                                             request.stop_after >= Stage::confirm,
                                             derive_seed(seed, "stressed"), site.progress);
    if (!wrong && stage == Stage::edge && !request.small_shapes)
      wrong = check_drawn_shapes(
          checker, site.device.facts(), site.task, request.variant, request.workloads,
          [&] { return largest_workload(site, request.variant); }, request.stop_after >= Stage::confirm,
          derive_seed(seed, "drawn"), site.progress);
    if (!wrong && stage == Stage::edge && request.exactness)
      evaluation.exactness = measure_exactness(site, request, derive_seed(seed, "exactness"));
    evaluation.check_seconds = seconds_since(start);
    evaluation.checked = checker.checked();
    if (wrong) return rejected(*wrong);
    if (reached(stage)) return evaluation;
  }

  start = Clock::now();
  if (request.every_row || request.stop_after >= Stage::confirm) {
    Checker thorough(site.device, site.task, site.oracle,
                     {.run_deadline_s = site.run_deadline_s,
                      .oracle_flops = kEveryRowFlops,
                      .stock = site.stock,
                      .mixed_bytes = kMixedBytes,
                      .awaited = request.stop_after >= Stage::confirm,
                      .check_builds = repeated});
    std::uint64_t shape = 0;
    steps.next();
    for (const Workload& w : request.workloads) {
      site.progress({Stage::measure, {}, fmt::format("measure {}: every row", w.name)});
      const std::uint64_t own = derive_seed(seed, "every row", shape++);
      // A confirmation compares every row of a timed run, too, whose values are plain.
      const bool mixed = request.stop_after >= Stage::confirm || derive_seed(own, "mixed") % 2 == 0;
      auto wrong = thorough.check(Stage::measure, request.variant, w, own, {.mixed = mixed});
      evaluation.check_seconds += seconds_since(start);
      start = Clock::now();
      if (wrong) return rejected(*wrong);
    }
    if (request.stop_after >= Stage::confirm && !request.workloads.empty()) {
      // The stage `determinism` has a small shape; what happens only in large ones shows here.
      const std::uint64_t own = derive_seed(seed, "determinism of a timed workload");
      const Workload& w = request.workloads[own % request.workloads.size()];
      steps.next();
      site.progress({Stage::determinism, {}, fmt::format("determinism {}", w.name)});
      auto wrong = thorough.check_determinism(request.variant, w, own);
      evaluation.check_seconds += seconds_since(start);
      start = Clock::now();
      if (wrong) return rejected(*wrong);
    }
  }
  Measuring measuring(site, request, seed);
  if (!request.checks_only && !request.workloads.empty()) steps.next();
  std::vector<double> values;
  for (std::size_t i = 0; i < request.workloads.size() && !request.checks_only; ++i) {
    auto wrong = measuring.measure(i, evaluation);
    evaluation.measure_seconds = seconds_since(start);
    if (wrong) return rejected(*wrong);
    values.push_back(evaluation.workloads.back().value);
    evaluation.unit = evaluation.workloads.back().unit;
  }
  if (!values.empty()) evaluation.fitness = geometric_mean(values);
  if (reached(Stage::measure) || request.stop_after < Stage::confirm) return evaluation;

  // The checks above used the seeds of this (fresh) process. What is left are the shapes that no search uses.
  start = Clock::now();
  steps.next();
  std::uint64_t index = 0;
  const std::vector<Workload> holdout =
      request.holdout.empty() ? holdout_workloads(site.task, request.variant.variant) : request.holdout;
  for (const Workload& w : holdout) {
    if (!claims(request.variant.variant, site.task, w)) continue;
    site.progress({Stage::confirm, {}, fmt::format("confirm {}", w.name)});
    if (auto wrong = checker.check(Stage::confirm, request.variant, w, derive_seed(seed, "confirm", index++)))
      return rejected(*wrong);
  }
  steps.next();
  auto wrong = check_unreached_blocks(checker, check_builds, site, request, derive_seed(seed, "unreached"));
  evaluation.coverage = check_builds.coverage();
  if (!wrong) {
    steps.next();
    site.progress({Stage::confirm, {}, "confirm beyond 2^31 elements"});
    LargeCheck large = check_large(site, request.variant, derive_seed(seed, "large"));
    evaluation.largest_elements = large.elements;
    wrong = std::move(large.wrong);
    if (!wrong) wrong = check_products(site, request.variant, derive_seed(seed, "products"));
  }
  evaluation.check_seconds += seconds_since(start);
  evaluation.checked = checker.checked();
  if (wrong) return rejected(*wrong);
  reached(Stage::confirm);
  return evaluation;
}

}  // namespace cultivar
