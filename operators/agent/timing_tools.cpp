// SPDX-License-Identifier: Apache-2.0
// The tools that time kernels: benchmark, of one kernel or a family of its settings, and tune.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operators/agent/tool_job.hpp"
#include "operators/feasibility.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/tune.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

constexpr std::size_t kMostSettings = 32;

// A kernel timed interleaved with another one.
struct Timed {
  Evaluation evaluation;                    // perhaps a rejection
  std::optional<Reference> reference = {};  // by workload
  double ratio = 0.0;                   // geometric mean of the speed relative to the other; 0: not compared
  std::optional<Interval> bounds = {};  // 95 %

  bool measured() const { return evaluation.measured(); }
};

// The other side of a comparison, compiled once.
struct Other {
  std::string label;
  Compiled compiled;
};

Timed compared(Evaluation evaluation, const std::vector<Workload>& workloads, const Other* other) {
  Timed timed{std::move(evaluation)};
  if (other == nullptr || !timed.measured()) return timed;
  double logs = 0.0, variance = 0.0;  // of the sum of logarithms, from half of each interval's width
  int ratios = 0, bounded = 0;
  Reference reference{other->label, {}};
  for (const Workload& workload : workloads) {
    double value = 0.0;
    std::optional<Interval> interval;
    for (const WorkloadResult& result : timed.evaluation.workloads)
      if (const auto ratio = result.ratios.find(other->label);
          result.workload == workload.name && ratio != result.ratios.end() && ratio->second > 0.0) {
        value = result.value / ratio->second;
        logs += std::log(ratio->second);
        if (const auto bounds = result.ratio_intervals.find(other->label);
            bounds != result.ratio_intervals.end() && bounds->second.lower > 0.0) {
          interval = bounds->second;
          variance += std::pow(std::log(interval->upper / interval->lower) / 2.0, 2.0);
          ++bounded;
        }
        ++ratios;
      }
    reference.values.push_back(value);
    reference.bounds.push_back(interval);
  }
  timed.reference = std::move(reference);
  if (ratios == 0) return timed;
  timed.ratio = std::exp(logs / ratios);
  if (bounded == ratios)
    timed.bounds = Interval{std::exp((logs - std::sqrt(variance)) / ratios),
                            std::exp((logs + std::sqrt(variance)) / ratios)};
  return timed;
}

// The other side of a benchmark: the best so far, the parent before there is one, or the requested kernel,
// which may be the kernel itself if other settings of it are timed. nullopt: none.
tl::expected<std::optional<ToolJob>, EditRefusal> other_job(ToolSession& session, const json& arguments,
                                                            const ToolJob& job) {
  const std::string against = id_in(arguments, "against");
  if (against == "none") return std::nullopt;
  auto kernel = find_kernel(session, against.empty() ? "best" : against);
  if (!kernel && against.empty()) kernel = find_kernel(session, "parent");
  if (!kernel && !against.empty()) return passed_on(kernel);
  if (!kernel || (kernel->row.id == job.subject.label && !arguments.contains("settings")))
    return std::nullopt;
  auto variant = variant_of(session.bench, *kernel);
  if (!variant) return passed_on(variant);
  ToolJob other{{kernel->row.id, std::move(*variant)}, {}};
  for (const Workload& workload : job.workloads)
    if (claims(other.subject.variant, session.bench.task(), workload)) other.workloads.push_back(workload);
  if (other.workloads.empty()) return std::nullopt;
  return other;
}

// Times one compiled kernel. A rejection is a result.
tl::expected<Timed, EditRefusal> time_one(ToolSession& session, const ToolJob& job, Compiled compiled,
                                          const Other* other, const Sampling& sampling, const Watch& watch) {
  EvaluateRequest request;
  request.variant = std::move(compiled);
  request.workloads = job.workloads;
  request.stop_after = Stage::measure;
  request.sampling = within_budget(session, sampling, job.workloads.size());
  if (other != nullptr) request.contenders.emplace_back(other->label, other->compiled);
  Watch own = watch;
  own.progress = steps_of(job, watch);
  auto evaluation = session.bench.evaluate(request, own);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!evaluation) return refused(fmt::format("The kernel could not be run: {}", evaluation.error().message));
  session.drafts.judged(job.subject.label, *evaluation);
  return compared(std::move(*evaluation), job.workloads, other);
}

Sampling sampling_for(const ToolSession& session, const json& arguments) {
  Sampling sampling = session.bench.sampling();
  sampling.until_clear = true;
  if (!arguments.value("thorough", false)) return sampling;
  constexpr int kThorough = 4;
  sampling.max_samples *= kThorough;
  sampling.max_seconds *= kThorough;
  sampling.until_clear = false;
  return sampling;
}

std::string ratio_words(const Timed& timed, const std::string& other) {
  std::string words = fmt::format("{:.3f}x the speed of {}", timed.ratio, other);
  if (timed.bounds)
    words += fmt::format(" (95 % interval {:.3f}x to {:.3f}x)", timed.bounds->lower, timed.bounds->upper);
  return words;
}

constexpr const char* kCompareRatios =
    "Timed interleaved, geometric mean. Across calls, compare only such ratios, not times, because the "
    "machine's speed varies. Only the gate decides whether a difference is more than noise.\n";

// The settings of a family or a sweep, one after the other, on a device that this call holds.
class Family {
 public:
  Family(ToolSession& session, const ToolJob& base, const Other* other, const Sampling& sampling,
         const Watch& watch)
      : session_(session), base_(base), other_(other), sampling_(sampling), watch_(watch) {}

  // Returns the result; nullopt if the values are invalid or the time is over, which the table says.
  std::optional<Timed> run(const Configuration& values) {
    Configuration all = base_.subject.variant.configuration;
    for (const auto& [name, value] : values) all[name] = value;
    auto variant = make_variant(base_.subject.variant.source, session_.bench.task(), all);
    if (!variant) {
      rows_.push_back({describe_configuration(values), {}, {}, variant.error().message});
      return std::nullopt;
    }
    const Draft draft = session_.drafts.put(std::move(*variant), base_.subject.label);
    const ToolJob job{{draft.id, draft.variant, true}, base_.workloads};
    watch_.tell(
        fmt::format("setting {}: {}", rows_.size() + 1, describe_configuration(draft.variant.configuration)));
    auto compiled = build(session_, job, watch_);
    if (watch_.over()) return cut();
    Timed timed;
    if (!compiled) {
      timed.evaluation = compiled.error();
      session_.drafts.judged(draft.id, timed.evaluation);
    } else {
      auto done = time_one(session_, job, std::move(*compiled), other_, sampling_, watch_);
      if (!done && watch_.over()) return cut();
      if (!done) {
        rows_.push_back(
            {describe_configuration(draft.variant.configuration), draft.id, {}, done.error().words});
        return std::nullopt;
      }
      timed = std::move(*done);
    }
    rows_.push_back({describe_configuration(draft.variant.configuration), draft.id, timed, {}});
    return timed;
  }
  bool over() const { return cut_ || rows_.size() >= kMostSettings; }
  bool empty() const { return rows_.empty(); }

  // Fastest first; rejected ones last.
  std::string table() {
    const auto worth = [&](const Row& row) {
      if (!row.timed || !row.timed->measured()) return -1.0;
      return other_ != nullptr ? row.timed->ratio : row.timed->evaluation.fitness;
    };
    std::ranges::stable_sort(rows_, std::ranges::greater(), worth);
    std::string text = fmt::format("| kernel | values | fitness |{}\n|---|---|---|{}\n",
                                   other_ ? fmt::format(" vs {} (95 % interval) |", other_->label) : "",
                                   other_ ? "---|" : "");
    for (const Row& row : rows_) {
      text += fmt::format("| {} | {} |", row.id.empty() ? "-" : row.id, row.values);
      if (!row.timed) {
        text += fmt::format(" invalid: {} |\n", row.trouble);
        continue;
      }
      const Evaluation& e = row.timed->evaluation;
      if (!e.measured()) {
        text += fmt::format(" rejected at {}: {} |\n", name_of(e.stage), e.reason);
        continue;
      }
      text += fmt::format(" {:.5g} {} |", e.fitness, e.unit);
      if (other_ && row.timed->ratio > 0.0) text += fmt::format(" {:.3f}x", row.timed->ratio);
      if (other_ && row.timed->bounds)
        text += fmt::format(" ({:.3f} - {:.3f})", row.timed->bounds->lower, row.timed->bounds->upper);
      if (other_) text += " |";
      text += "\n";
    }
    if (cut_) text += "Stopped before the last setting: the time limit of this call is reached.\n";
    return text + (other_ ? kCompareRatios
                          : "Timed one after the other: the machine's speed may have changed between two "
                            "settings. Name a kernel in `against` to get ratios.\n");
  }

 private:
  struct Row {
    std::string values, id;
    std::optional<Timed> timed;
    std::string trouble;
  };
  std::nullopt_t cut() {
    cut_ = true;
    return std::nullopt;
  }

  ToolSession& session_;
  const ToolJob& base_;
  const Other* other_;
  Sampling sampling_;
  const Watch& watch_;
  std::vector<Row> rows_;
  bool cut_ = false;
};

// What benchmark and tune begin with: the device, the kernel and the other one, compiled.
struct Ready {
  ToolJob job;
  DeviceTurns::Turn turn;
  Compiled compiled;
  std::optional<Other> other;
  std::string remark;
};
// The text of a rejection is an answer: then `ready` has none.
struct Begun {
  std::optional<Ready> ready;
  std::string rejection;
};

tl::expected<Begun, EditRefusal> begin_timing(ToolSession& session, const json& arguments, Watch& watch) {
  auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  auto other = other_job(session, arguments, *job);
  if (!other) return passed_on(other);
  auto built = build_for_device(session, *job, watch);
  if (!built) return passed_on(built);
  if (!built->compiled) return Begun{std::nullopt, rejected(session, job->subject, built->compiled.error())};
  Ready ready{std::move(*job), std::move(*built->turn), std::move(*built->compiled), std::nullopt, {}};
  if (*other) {
    auto compiled = build(session, **other, watch);
    if (auto over = ended(watch)) return tl::make_unexpected(*over);
    if (compiled)
      ready.other = Other{(*other)->subject.label, std::move(*compiled)};
    else
      ready.remark =
          fmt::format("Not compared with {}: that kernel is rejected at `{}`: {}\n", (*other)->subject.label,
                      name_of(compiled.error().stage), compiled.error().reason);
  }
  return Begun{std::move(ready), {}};
}

// Every combination of the listed values.
tl::expected<std::vector<Configuration>, EditRefusal> grid_of(const json& values) {
  std::vector<Configuration> all(1);
  for (const auto& [name, list] : values.items()) {
    std::vector<Configuration> next;
    for (const Configuration& one : all)
      for (const json& value : list) {
        Configuration more = one;
        more[name] = value.is_string() ? TunableValue(value.get<std::string>())
                                       : TunableValue(value.get<std::int64_t>());
        next.push_back(std::move(more));
        if (next.size() > kMostSettings)
          return refused(
              fmt::format("`values` has more than {} combinations: list fewer values", kMostSettings));
      }
    all = std::move(next);
  }
  return all;
}

// Proposals of the search's own tuner, which learns from each result. `measure` returns the speed relative to
// the base; nullopt: rejected or not run.
void sweep(const ToolSession& session, const ToolJob& base, int evaluations,
           const std::function<std::optional<double>(const Configuration&)>& measure) {
  const Facts facts = session.bench.facts().value_or(Facts{});
  const std::function<std::string(const std::string&)> source_of = [&](const std::string&) {
    return base.subject.variant.source;
  };
  Archive archive;
  TuneOperator tuner(1);
  RandomStream stream = stream_of(1, "tune tool", 0);
  const auto add = [&](const Variant& variant, std::optional<double> speed) {
    Individual one;
    one.id = archive.size() + 1;
    one.variant_id = variant.id;
    one.source_id = variant.source_id;
    one.configuration = variant.configuration;
    archive.add(one);
    archive.judge(one.id, speed.has_value(), speed.value_or(0.0));
    tuner.observe(one.id, archive);
  };
  add(base.subject.variant, 1.0);
  for (int i = 0; i < evaluations; ++i) {
    const OperatorContext context{session.bench.task(),  base.workloads, facts, archive, source_of, 0, {1},
                                  session.bench.target()};
    const auto proposal = tuner.propose(context, stream);
    if (!proposal) return;
    const auto variant = make_variant(proposal->source, session.bench.task(), proposal->configuration);
    if (!variant) return;
    add(*variant, measure(proposal->configuration));
  }
}

}  // namespace

Answer benchmark_variant(ToolSession& session, const json& arguments, Watch& watch) {
  auto begun = begin_timing(session, arguments, watch);
  if (!begun) return passed_on(begun);
  if (!begun->ready) return begun->rejection;
  Ready& ready = *begun->ready;
  const Other* const other = ready.other ? &*ready.other : nullptr;
  const Sampling sampling = sampling_for(session, arguments);
  if (arguments.contains("settings")) {
    Family family(session, ready.job, other, sampling, watch);
    for (const json& one : arguments["settings"]) {
      if (family.over()) break;
      (void)family.run(tunables_of(one));
    }
    if (family.empty())
      if (auto over = ended(watch)) return tl::make_unexpected(*over);
    return named(ready.job.subject) + "\n" + family.table() + ready.remark + spent(session, ready.turn);
  }
  auto timed = time_one(session, ready.job, std::move(ready.compiled), other, sampling, watch);
  if (!timed) return passed_on(timed);
  if (!timed->measured())
    return rejected(session, ready.job.subject, timed->evaluation) + spent(session, ready.turn);
  std::string text = named(ready.job.subject) + "\n";
  if (timed->ratio > 0.0) text += ratio_words(*timed, other->label) + ".\n";
  std::vector<Reference> references;
  if (timed->reference) references.push_back(*timed->reference);
  text += describe_measurements(timed->evaluation, ready.job.workloads, {}, references) + ready.remark;
  if (timed->ratio > 0.0) text += std::string("\n") + kCompareRatios;
  if (!timed->evaluation.diagnostics.empty()) text += timed->evaluation.diagnostics + "\n";
  return text + spent(session, ready.turn);
}

Answer tune_variant(ToolSession& session, const json& arguments, Watch& watch) {
  std::optional<std::vector<Configuration>> grid;
  if (arguments.contains("values")) {
    auto all = grid_of(arguments["values"]);
    if (!all) return passed_on(all);
    grid = std::move(*all);
  }
  json mine = arguments;
  if (!mine.contains("against")) mine["against"] = "none";  // replaced by the kernel itself
  auto begun = begin_timing(session, mine, watch);
  if (!begun) return passed_on(begun);
  if (!begun->ready) return begun->rejection;
  Ready& ready = *begun->ready;
  const ToolJob& base = ready.job;
  if (base.subject.variant.manifest.tunables.empty())
    return refused(fmt::format("{} has no tunables: add some to its manifest", base.subject.label));
  if (!ready.other && id_in(arguments, "against") != "none")
    ready.other = Other{base.subject.label, ready.compiled};
  Sampling sampling = sampling_for(session, arguments);
  constexpr int kSamples = 12;  // enough to rank; benchmark the winner afterwards
  constexpr double kSeconds = 1.5;
  if (!arguments.value("thorough", false)) {
    sampling.max_samples = std::min(sampling.max_samples, kSamples);
    sampling.max_seconds = std::min(sampling.max_seconds, kSeconds);
  }
  Family family(session, base, ready.other ? &*ready.other : nullptr, sampling, watch);
  const auto measure = [&](const Configuration& values) -> std::optional<double> {
    if (family.over()) return std::nullopt;
    const auto timed = family.run(values);
    if (!timed || !timed->measured()) return std::nullopt;
    return timed->ratio > 0.0 ? timed->ratio : timed->evaluation.fitness;
  };
  if (grid) {
    for (const Configuration& values : *grid) (void)measure(values);
  } else {
    constexpr int kUsual = 12;
    sweep(session, base, std::min(arguments.value("evaluations", kUsual), static_cast<int>(kMostSettings)),
          measure);
  }
  if (family.empty()) {
    if (auto over = ended(watch)) return tl::make_unexpected(*over);
    return refused("No other setting satisfies the constraints");
  }
  return fmt::format("Settings of {}:\n", named(base.subject)) + family.table() + ready.remark +
         spent(session, ready.turn);
}

}  // namespace cultivar
