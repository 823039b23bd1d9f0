// SPDX-License-Identifier: Apache-2.0
#include "engine/search/comparisons.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "engine/config/config.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

using nlohmann::json;

static_assert(Breeding::kMostParts == kMostDuelParts);

Comparisons::Comparisons(const Config& config, Evaluator& evaluator, Recorder& recorder, Breeding& breeding,
                         ParsedSources& sources, Pipeline& pipeline, SecondTries& second_tries,
                         HostFaults& faults, std::vector<VariantPtr> contenders)
    : config_(config),
      evaluator_(evaluator),
      recorder_(recorder),
      breeding_(breeding),
      sources_(sources),
      pipeline_(pipeline),
      second_tries_(second_tries),
      faults_(faults),
      contenders_(std::move(contenders)),
      judged_(breeding.judged()),
      ended_(comparisons_since_judgement(recorder.record())),
      ledger_(config.gate_alpha, static_cast<std::uint64_t>(summary_of(recorder.record()).duels)),
      pace_(config, recorder, breeding, sources, pipeline) {
  for (const std::string& library : config.libraries) libraries_.push_back(evaluator.contender(library));
  if (!config.holdout.empty()) holdout_ = breeding.task().workloads(config.holdout)->workloads;
  everything_ = breeding.workloads();
  everything_.insert(everything_.end(), holdout_.begin(), holdout_.end());
}

void Comparisons::count_ended() {
  ended_ = ended() + 1;
  judged_ = breeding_.judged();
}

VariantPtr Comparisons::variant_of(IndividualId id) const {
  return sources_.recorded(breeding_.archive().member(id)).value();
}

void Comparisons::start() {
  if (in_flight_) return;
  if (breeding_.winner() != 0) return confirm(breeding_.winner());
  const auto challenger = breeding_.challenger();
  if (!challenger) return;
  // The first incumbent replaces nothing, so it needs no duel, but it must still be confirmed.
  if (breeding_.incumbent())
    duel(*challenger);
  else
    confirm(*challenger);
}

void Comparisons::confirm(IndividualId id) {
  Confirm work;
  work.build = {{variant_of(id)}, everything_, Breadth::confirming, contenders_, breeding_.workloads()};
  if (const IndividualId seed = first_seed(); seed != 0 && seed != id)
    work.build.contenders.push_back(variant_of(seed));
  send(id, std::move(work));
}

IndividualId Comparisons::first_seed() const {
  const Archive& archive = breeding_.archive();
  for (IndividualId id = 1; id <= archive.size(); ++id) {
    if (archive.origin(id) != Origin::seed || archive.state(id) == Member::State::rejected) continue;
    return archive.state(id) == Member::State::measured ? id : 0;
  }
  return 0;
}

void Comparisons::duel(IndividualId id) {
  Duel work;
  work.build.variants = {variant_of(id), variant_of(breeding_.incumbent()), variant_of(breeding_.control())};
  // Compiling for everything that a confirmation checks finds, before the duel, challengers that could not be
  // confirmed. Where compilers and measurements share the cores, this costs more than the few duels it saves.
  const bool costly = evaluator_.timing_needs_quiet();
  work.build.breadth = costly ? Breadth::searching : Breadth::everything;
  work.build.workloads = costly ? breeding_.workloads() : everything_;
  send(id, std::move(work));
}

void Comparisons::send(IndividualId id, Job::Work work) {
  recorder_.step([&](Step& step) { step.challenge(id); });
  in_flight_ = true;
  pipeline_.compile(std::make_shared<Job>(std::move(work), id));
}

void Comparisons::measure(const JobPtr& job) {
  in_flight_ = true;
  pipeline_.measure(job);
}

Comparisons::Outcome Comparisons::returned(const JobPtr& job, Duel& work) {
  in_flight_ = false;
  if (work.result) {
    GateReport& report = *work.result;
    const std::string what = report.trouble.empty() ? "" : report.trouble.front();
    // start() sends the duel again.
    if (report.host_fault &&
        faults_.met_in_duel(job->id, *report.host_fault, what) != HostFaults::Ruling::variants)
      return {};
    const IndividualId by = duel_ ? duel_->overtaken_by : 0;
    if (by != 0 && report.decision.verdict == Verdict::undecided)
      report.decision.reason += fmt::format(": #{} is faster than both", by);
    decide(job->id, work.request, report);
    return {};
  }
  auto& compiled = work.build.compiled;
  // It compiled for the search's workloads, but not for all that a confirmation checks: it fails the
  // confirmation.
  if (work.build.breadth == Breadth::everything && !compiled[0])
    return {.promoted = confirmed(job->id, compiled[0].error())};
  // Each side compiled before, so a failure now is the machine's fault, not the candidate's.
  for (const auto& side : compiled)
    if (!side)
      return {.trouble = Error{ErrorKind::failed, "compile",
                               fmt::format("individual {} compiled before and now does not: {}", job->id,
                                           side.error().reason)}};
  GateRequest& request = work.request;
  request.challenger = std::move(*compiled[0]);
  request.incumbent = std::move(*compiled[1]);
  request.control = std::move(*compiled[2]);
  request.workloads = breeding_.workloads();
  set_test(job->id, request);
  request.oracle_rows = config_.evaluation.oracle_rows;
  duel_ = {job->id, 0, std::make_shared<std::atomic<bool>>(false)};
  request.enough = duel_->enough;
  measure(job);
  watch_duel();
  return {};
}

void Comparisons::watch_duel() {
  if (!in_flight_ || !duel_ || duel_->overtaken_by != 0) return;
  duel_->overtaken_by = breeding_.overtakes(duel_->challenger);
  if (duel_->overtaken_by != 0) *duel_->enough = true;
}

Comparisons::Outcome Comparisons::returned(const JobPtr& job, Confirm& work) {
  in_flight_ = false;
  if (work.result) return {.promoted = confirmed(job->id, *work.result)};
  auto& compiled = work.build.compiled;
  if (!compiled[0]) return {.promoted = confirmed(job->id, compiled[0].error())};
  // Without a contender, its ratio would be missing until the next promotion. start() sends it again.
  const auto name_of_contender = [&](std::size_t i) { return work.build.contenders[i - 1]->manifest.name; };
  for (std::size_t i = 1; i < compiled.size(); ++i)
    if (!compiled[i] && compiled[i].error().host_fault &&
        faults_.met_by_contender(job->id, static_cast<int>(i), name_of_contender(i), compiled[i].error()) ==
            HostFaults::Ruling::again)
      return {};
  if (overtaken_before_first(job->id)) return {};  // start() sends the faster one
  EvaluateRequest& request = work.request;
  request.variant = std::move(*compiled[0]);
  request.workloads = breeding_.workloads();
  request.sampling = sampling_of(config_.evaluation);
  request.stop_after = Stage::confirm;
  request.holdout = holdout_;
  request.exactness = true;
  if (work.build.contenders.size() > contenders_.size()) {  // the first seed
    if (compiled.back()) request.incumbent = std::move(*compiled.back());
    compiled.pop_back();
  }
  for (std::size_t i = 1; i < compiled.size(); ++i) {
    const std::string name = name_of_contender(i);
    if (compiled[i])
      request.contenders.emplace_back(name, std::move(*compiled[i]));
    else
      recorder_.trouble(0,
                        fmt::format("contender {} does not compile: {}", name, compiled[i].error().reason));
  }
  for (const Compiled& library : libraries_)
    request.contenders.emplace_back(library.variant.manifest.name, library);
  measure(job);
  return {};
}

bool Comparisons::overtaken_before_first(IndividualId id) const {
  constexpr double kWorthCompilingAgain = 1.2;
  const auto next = breeding_.challenger();
  return breeding_.incumbent() == 0 && next &&
         breeding_.archive().fitness(*next) > kWorthCompilingAgain * breeding_.archive().fitness(id);
}

namespace {

// A duel as it ended. Throws nlohmann::json::exception.
struct Undecided {
  GateOptions options;
  std::uint64_t seed = 0;
  DuelTimes times;
  double device_seconds = 0.0;
};

std::optional<Undecided> undecided_duel(const Record& record, IndividualId challenger,
                                        IndividualId incumbent) {
  const std::vector<DuelRow> duels = record.duels(challenger);
  if (duels.empty()) return std::nullopt;
  const DuelRow& last = duels.back();
  if (last.incumbent != incumbent || last.verdict != Verdict::undecided || !last.report.contains("times"))
    return std::nullopt;
  return Undecided{last.report.at("options").get<GateOptions>(), last.report.at("seed").get<std::uint64_t>(),
                   last.report.at("times").get<DuelTimes>(),
                   last.report.at("decision").at("device_seconds").get<double>()};
}

bool same_claims(const GateOptions& a, const GateOptions& b) {
  return a.min_gain == b.min_gain && a.max_workload_loss == b.max_workload_loss && a.futility == b.futility &&
         a.guard == b.guard;
}

// Whether a gate takes these times and needs more: a record may hold anything.
bool goes_on(const GateRequest& request) {
  std::vector<std::string> names;
  for (const Workload& workload : request.workloads) names.push_back(workload.name);
  Gate gate(names, request.options, request.seed, request.earlier.pilots);
  for (const DuelTimes::Block& block : request.earlier.blocks) gate.add(block.seconds, block.device_seconds);
  return !gate.done();
}

}  // namespace

void Comparisons::set_test(IndividualId id, GateRequest& request) const {
  try {
    if (auto last = undecided_duel(recorder_.record(), id, breeding_.incumbent());
        last && same_claims(last->options, config_.gate)) {
      request.options = config_.gate;
      request.options.alpha = last->options.alpha;
      request.options.max_device_seconds += last->device_seconds;
      request.seed = last->seed;
      request.earlier = std::move(last->times);
      if (goes_on(request)) return;
    }
  } catch (const std::exception&) {  // a duel that cannot continue is started again
  }
  request.earlier = {};
  request.options = config_.gate;
  request.options.alpha = ledger_.share(ledger_.comparisons() + 1);
  request.seed = stream_of(config_.seed, "gate", ledger_.comparisons())();
}

void Comparisons::decide(IndividualId id, const GateRequest& request, const GateReport& report) {
  const Decision& decision = report.decision;
  const Step::Course course{.went_on = !request.earlier.blocks.empty(),
                            .may_go_on = decision.verdict == Verdict::undecided && report.trouble.empty() &&
                                         !report.times.blocks.empty(),
                            .result = result_of(decision, breeding_.incumbent())};
  json body = {{"decision", decision},
               {"trouble", report.trouble},
               {"challenger_seconds", report.challenger_seconds},
               {"incumbent_seconds", report.incumbent_seconds},
               {"seconds", report.seconds},
               {"input_seed", report.input_seed},
               {"control", breeding_.control()}};
  if (course.may_go_on)
    body.update({{"options", request.options}, {"seed", request.seed}, {"times", report.times}});
  if (!course.went_on) ledger_.next();
  count_ended();
  const IndividualId incumbent = breeding_.incumbent();
  const bool overtaken = duel_ && duel_->overtaken_by != 0;
  duel_.reset();
  if (report.trouble.empty() && !overtaken) undecided_.ended(decision, request.options);
  const std::string advice = undecided_.advice(config_.gate.max_device_seconds, recorder_.record().folder());
  const bool new_advice = advice_.empty() && !advice.empty();
  advice_ = advice;
  breeding_.compared(id, decision.verdict, course.may_go_on, course.result);
  recorder_.step([&](Step& step) {
    step.duel(id, incumbent, decision.verdict, request.options.alpha, body, course);
    recorder_.tell(
        step, "duel", id,
        fmt::format("{} {} #{}: {}", name_of(decision.verdict),
                    decision.verdict == Verdict::undecided ? "against" : "than", incumbent, decision.reason));
    step.set("gate_advice", advice_);
    if (new_advice) recorder_.tell(step, "warning", id, advice_);
    if (report.worker_lost)
      recorder_.tell(step, "worker", id, "the worker was lost during the duel and replaced by a new one");
  });
}

Evaluation Comparisons::with_growth_limited(Evaluation evaluation) const {
  const IndividualId before = breeding_.incumbent();
  if (!evaluation.measured()) return evaluation;
  const auto earlier = before ? recorder_.record().confirmation(before) : std::nullopt;
  const std::vector<Exactness> known = earlier ? earlier->exactness : std::vector<Exactness>{};
  set_bars(evaluation.exactness, known);
  const auto grown = error_growth(evaluation.exactness, known, config_.max_error_growth);
  if (!grown) return evaluation;
  Evaluation refused = evaluation;
  refused.verdict = Evaluation::Verdict::rejected;
  refused.reason =
      fmt::format("less exact than gate.max_error_growth allows for {} inputs", grown->distribution);
  refused.diagnostics =
      fmt::format(
          "For {} inputs the rms error is {:.3g} x the permitted one, but at most {:.3g} x is allowed here: "
          "gate.max_error_growth ({:g}) times that of the best kernels so far, or of the permitted "
          "roundings. Keep the precision of the parts that carry most of the result: accumulate in f32, "
          "round once, and scale relative to the greatest value.\n",
          grown->distribution, grown->of_allowed, grown->limit, config_.max_error_growth) +
      evaluation.diagnostics;
  refused.fitness = 0.0;
  return refused;
}

IndividualId Comparisons::confirmed(IndividualId id, const Evaluation& found) {
  if (found.host_fault && faults_.met(id, Examination::confirm, found) != HostFaults::Ruling::variants)
    return 0;  // start() sends it again
  const Evaluation evaluation = with_growth_limited(found);
  if (second_tries_.grant(id, Examination::confirm, evaluation)) return 0;  // start() sends it again
  count_ended();
  const Record& record = recorder_.record();
  const IndividualId before = breeding_.incumbent();
  const double fitness = breeding_.archive().fitness(id);
  if (evaluation.measured()) {
    breeding_.promote(id);
    pace_.set_medians(*record.evaluation(id));
  } else {
    breeding_.expel(id);
  }
  recorder_.step([&](Step& step) {
    step.confirm(id, evaluation);
    if (evaluation.measured()) {
      const DuelResult* const duel = breeding_.archive().duel(id);
      step.promote(id, fitness);
      recorder_.tell(step, "promoted", id,
                     before
                         ? fmt::format("{:.4g} {}, replaces #{}{}", fitness, evaluation.unit, before,
                                       duel ? fmt::format(" (side by side {})", gain_words(duel->all)) : "")
                         : fmt::format("{:.4g} {}, the first incumbent", fitness, evaluation.unit));
    } else {
      step.expel(id);
      recorder_.tell(
          step, "refused", id,
          fmt::format("failed its confirmation at {}: {}", name_of(evaluation.stage), evaluation.reason));
    }
    for (const ContenderTrouble& why : evaluation.contender_troubles)
      recorder_.tell(step, "trouble", id, why.line());
  });
  return evaluation.measured() ? id : 0;
}

namespace {

constexpr double kMuchMore = 1.5;  // times the limit: less shows small effects, not noise
constexpr double kTooMuch = 100.0;

// The next of 1, 1.5, 2, 3, 4, 6, 8, 10, ...
double rounded_up(double seconds) {
  const double ten = std::pow(10.0, std::floor(std::log10(seconds)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0})
    if (seconds <= step * ten * (1.0 + 1e-9)) return step * ten;
  return 10.0 * ten;
}

}  // namespace

void UndecidedDuels::ended(const Decision& decision, const GateOptions& options) {
  // Also one that ended early, since its noise would have taken far more.
  const bool by_limit = decision.verdict == Verdict::undecided &&
                        (decision.device_seconds >= options.max_device_seconds ||
                         needed_seconds(decision, options, kEffect) > options.max_device_seconds);
  if (!by_limit || options.min_gain > 0.5 * kEffect) {
    needed_s_.clear();
    return;
  }
  needed_s_.push_back(needed_seconds(decision, options, kEffect));
  if (needed_s_.size() > kInARow) needed_s_.erase(needed_s_.begin());
}

std::string UndecidedDuels::advice(double limit_s, const std::filesystem::path& run_folder) const {
  if (needed_s_.size() < kInARow) return {};
  const double needed = median(needed_s_);
  if (needed < kMuchMore * limit_s) return {};
  const std::string begun = fmt::format(
      "the last {} duels ended undecided within gate.max_device_seconds ({:g} s); at their noise, an effect "
      "of {:g} % needs about {:.2g} s",
      kInARow, limit_s, 100.0 * kEffect, needed);
  if (needed > kTooMuch * limit_s)
    return begun + ": look for other work on this machine or device, or choose workloads that take longer";
  return fmt::format("{}: stop the search, then `cultivar resume {} --set gate.max_device_seconds={:g}s`",
                     begun, shell_word(run_folder.string()), rounded_up(needed));
}

}  // namespace cultivar
