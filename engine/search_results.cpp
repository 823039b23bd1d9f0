// What comes back to the steward: compiled variants, evaluations, verdicts, trouble.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/search_loop.hpp"
#include "evaluators/profile/bottleneck.hpp"

namespace cultivar {

using nlohmann::json;

void SearchLoop::compiled(const JobPtr& job) {
  if (job->kind == Job::Kind::evaluate) {
    auto& result = job->compiled.front();
    if (!result) {
      leave(*job);
      return judge(job->id, result.error(), "", 0);
    }
    std::vector<std::string> codes;
    for (const Binary& binary : result->binaries) codes.push_back(binary.machine_code);
    job->kernel =
        kernel_hash(codes, result->variant, breeding_.task(), breeding_.workloads(), breeding_.facts());
    if (const auto twin = breeding_.twin_by_machine_code(job->kernel); twin && *twin != job->id) {
      leave(*job);
      Evaluation duplicate =
          rejection(Stage::screen, fmt::format("the same kernel as individual {}", *twin),
                    "Its machine code and launch plan are equal; it was not measured again.");
      return judge(job->id, duplicate, job->kernel, *twin);
    }
    breeding_.claim_machine_code(job->id, job->kernel);
    job->evaluate = request_for(std::move(*result));
    job->evaluate->incumbent_us = incumbent_us_;
    return pipeline_->measure(job);
  }

  if (job->kind == Job::Kind::pace) {
    if (!job->compiled[0]) {
      job->evaluation = job->compiled[0].error();
      leave(*job);
      return paced(job);
    }
    job->evaluate = request_for(std::move(*job->compiled[0]));
    return pipeline_->measure(job);
  }

  if (job->kind == Job::Kind::profile) {
    if (!job->compiled[0]) return leave(*job);  // it was compiled before: what is wrong shows elsewhere
    job->profiling = ProfileRequest{};
    job->profiling->variant = std::move(*job->compiled[0]);
    job->profiling->workload = job->workloads.front();
    job->profiling->sampling = sampling_of(config_.evaluation);
    return pipeline_->measure(job);
  }

  // More is compiled than the search did, for all that a confirmation checks.
  if (job->breadth == Breadth::everything && !job->compiled[0]) {
    job->evaluation = job->compiled[0].error();
    leave(*job);
    return judged_confirmation(job);
  }
  // A side that was compiled before and is not now: the machine is in trouble, not the candidate.
  for (std::size_t i = 0; job->kind == Job::Kind::duel && i < 3; ++i)
    if (!job->compiled[i]) {
      job->trouble =
          Error{"compile", fmt::format("individual {} was compiled before and cannot be any more: {}",
                                       job->id, job->compiled[i].error().reason)};
      return had_trouble(job);
    }
  if (job->kind == Job::Kind::duel) {
    alpha_ = ledger_.share(ledger_.comparisons() + 1);
    job->duel = GateRequest{};
    job->duel->challenger = std::move(*job->compiled[0]);
    job->duel->incumbent = std::move(*job->compiled[1]);
    job->duel->control = std::move(*job->compiled[2]);
    job->duel->workloads = breeding_.workloads();
    job->duel->options = config_.gate;
    job->duel->options.alpha = alpha_;
    job->duel->seed = stream_of(config_.seed, "gate", ledger_.comparisons())();
    job->duel->oracle_rows = config_.evaluation.oracle_rows;
  } else {
    job->evaluate = request_for(std::move(*job->compiled[0]));
    job->evaluate->stop_after = Stage::confirm;
    job->evaluate->holdout = holdout_;
    for (std::size_t i = 1; i < job->compiled.size(); ++i) {
      const Variant& contender = job->variants[i];
      if (job->compiled[i])
        job->evaluate->contenders.emplace_back(contender.manifest.name, std::move(*job->compiled[i]));
      else
        record([&](Step& step) {
          tell(step, "trouble", 0,
               fmt::format("contender {} does not compile: {}", contender.manifest.name,
                           job->compiled[i].error().reason));
        });
    }
    for (const Compiled& library : libraries_)
      job->evaluate->contenders.emplace_back(library.variant.manifest.name, library);
  }
  pipeline_->measure(job);
}

void SearchLoop::judge(IndividualId id, const Evaluation& evaluation, const std::string& kernel,
                       IndividualId duplicate_of) {
  if (breeding_.archive().member(id).op == "seed" && put_off(id, "search", evaluation))
    return owed_.push_back(id);
  Individual individual;
  individual.id = id;
  individual.machine_code = kernel;
  individual.duplicate_of = duplicate_of;
  individual.measured = evaluation.measured();
  individual.fitness = evaluation.measured() ? evaluation.fitness : 0.0;
  for (const Workload& workload : breeding_.workloads())
    for (const WorkloadResult& result : evaluation.workloads)
      if (result.workload == workload.name) individual.workload_values.push_back(result.value);

  const auto migrations =
      breeding_.judge(id, individual.measured, individual.fitness, duplicate_of, device_seconds(evaluation));
  exhausted_ = false;
  ops_.erase(id);
  if (individual.measured) {
    ++measured_;
    unit_ = evaluation.unit;
    if ((first_seed_ == 0 || id < first_seed_) && breeding_.archive().member(id).op == "seed") {
      first_seed_ = id;
      first_seed_fitness_ = individual.fitness;
    }
  } else {
    ++rejected_[std::string(name_of(evaluation.stage))];
  }
  record([&](Step& step) {
    step.judge(individual, evaluation);
    for (const Migration& migration : migrations) step.migrate(migration);
    if (individual.measured)
      tell(step, "measured", id, fmt::format("{:.4g} {}", evaluation.fitness, evaluation.unit));
    else
      tell(step, "rejected", id, fmt::format("{}: {}", name_of(evaluation.stage), evaluation.reason));
    if (evaluation.worker_lost)
      tell(step, "worker", id, "the worker was lost with this individual and replaced by a fresh one");
  });
}

// A busy machine is late with kernels that are well. What a search begins from, and what won, is owed a
// second try; of those in between another comes soon.
bool SearchLoop::put_off(IndividualId id, const std::string& of, const Evaluation& evaluation) {
  if (!evaluation.late || !put_off_.emplace(id, of).second) return false;
  record([&](Step& step) {
    step.put_off(id, of, evaluation);
    tell(step, "trouble", id,
         fmt::format("{}: {}; it is {} once more, in case the machine was busy", name_of(evaluation.stage),
                     evaluation.reason, of == "search" ? "evaluated" : "confirmed"));
  });
  return true;
}

void SearchLoop::judged_duel(const JobPtr& job) {
  const GateReport& report = *job->report;
  const Decision& decision = report.decision;
  json body = {{"decision", decision},
               {"trouble", report.trouble},
               {"challenger_seconds", report.challenger_seconds},
               {"incumbent_seconds", report.incumbent_seconds},
               {"seconds", report.seconds},
               {"input_seed", report.input_seed},
               {"control", breeding_.control()}};
  ledger_.next();
  const IndividualId incumbent = breeding_.incumbent();
  breeding_.compared(job->id, decision.verdict == Verdict::better);
  record([&](Step& step) {
    step.duel(job->id, incumbent, std::string(name_of(decision.verdict)), alpha_, body);
    tell(
        step, "duel", job->id,
        fmt::format("{} {} #{}: {}", name_of(decision.verdict),
                    decision.verdict == Verdict::undecided ? "against" : "than", incumbent, decision.reason));
    if (report.worker_lost)
      tell(step, "worker", job->id, "the worker was lost in a duel and replaced by a fresh one");
  });
}

namespace {

// Why a contender has no figure beside this one: a line of the diagnostics, with the detail below it.
std::vector<std::string> troubles_of_contenders(const Evaluation& evaluation) {
  std::vector<std::string> all;
  std::istringstream lines(evaluation.diagnostics);
  bool detail = false;
  for (std::string line; std::getline(lines, line);) {
    const bool begins = line.starts_with("contender ");
    if (begins) all.push_back(line);
    if (detail && !begins) all.back() += " (" + line + ")";
    detail = begins;
  }
  return all;
}

}  // namespace

void SearchLoop::judged_confirmation(const JobPtr& job) {
  const Evaluation& evaluation = *job->evaluation;
  if (put_off(job->id, "confirm", evaluation)) return;  // it comes again by itself
  const IndividualId before = breeding_.incumbent();
  const double fitness = journal_.record().individual(job->id)->individual.fitness;  // as it was measured
  if (evaluation.measured()) {
    breeding_.promote(job->id);
    if (config_.evaluation.profile == EvaluationConfig::Profiles::elites) to_profile_ = job->id;
    const auto searched = journal_.record().evaluation(job->id);
    incumbent_us_.clear();
    for (const WorkloadResult& workload : searched->workloads)
      incumbent_us_[workload.workload] = workload.median_us;
  } else {
    breeding_.expel(job->id);
  }
  record([&](Step& step) {
    step.confirm(job->id, evaluation);
    if (evaluation.measured()) {
      const auto gain = journal_.record().gain_by_duel(job->id);
      step.promote(job->id, fitness);
      tell(step, "promoted", job->id,
           before ? fmt::format("{:.4g} {}, replaces #{}{}", fitness, unit_, before,
                                gain ? fmt::format(" ({:.2f} % faster side by side)", 100.0 * *gain) : "")
                  : fmt::format("{:.4g} {}, the first incumbent", fitness, unit_));
    } else {
      step.expel(job->id);
      tell(step, "refused", job->id,
           fmt::format("failed its confirmation at {}: {}", name_of(evaluation.stage), evaluation.reason));
    }
    for (const std::string& why : troubles_of_contenders(evaluation)) tell(step, "trouble", job->id, why);
  });
}

void SearchLoop::paced(const JobPtr& again) {
  const auto pace_of = [&](const JobPtr& one) {
    return one->evaluation->fitness / breeding_.archive().fitness(one->id);
  };
  const auto jump_of = [&](const JobPtr& one) { return std::abs(std::log(pace_of(one) / breeding_.pace())); };
  const JobPtr before = std::exchange(doubted_, nullptr);
  if (!again->evaluation->measured()) {
    unpaced_ = false;
    return record([&](Step& step) {
      tell(step, "trouble", again->id,
           fmt::format("the best could not be measured once more, {}: {}", name_of(again->evaluation->stage),
                       again->evaluation->reason));
    });
  }
  // It holds for a while, and may have been disturbed: a jump counts as far as a second measurement agrees.
  if (!before && jump_of(again) > 0.05) {
    doubted_ = again;
    pace_due_ = elapsed();
    return;
  }
  unpaced_ = false;
  const JobPtr& job = before && jump_of(before) < jump_of(again) ? before : again;
  const Evaluation& now = *job->evaluation;
  const double pace = pace_of(job);
  breeding_.paced(pace);
  if (job->id == breeding_.incumbent())
    for (const WorkloadResult& workload : now.workloads)
      incumbent_us_[workload.workload] = workload.median_us;
  record([&](Step& step) {
    step.pace(job->id, now.fitness, pace);
    tell(step, "pace", job->id,
         fmt::format(
             "the best{} makes {:.4g} {} here and now, {:.4g} when it was found; new ones are compared "
             "with what it makes now",
             job->id == breeding_.incumbent() ? "" : " before", now.fitness, unit_,
             journal_.record().individual(job->id)->individual.fitness));
  });
}

void SearchLoop::profiled(const JobPtr& job) {
  const ProfilePartial& found = *job->profile;
  if (found.rejection)
    return record(
        [&](Step& step) { tell(step, "trouble", job->id, "no profile: " + found.rejection->reason); });
  const Report report = explain(found.profile);
  // Then the next ones will find no more, and cost as much.
  const bool fruitless =
      found.profile.target == "cuda" && !found.profile.missing.empty() &&
      std::none_of(found.profile.kernels.begin(), found.profile.kernels.end(),
                   [](const KernelProfile& k) { return !k.counters.empty() || k.samples > 0; });
  record([&](Step& step) {
    step.profile(job->id, found.profile);
    tell(step, "profiled", job->id,
         report.findings.empty() ? report.headline : report.headline + "; " + report.findings.front().words);
    if (fruitless)
      tell(step, "trouble", job->id, "profiles hold less than they could: " + found.profile.missing.front());
  });
  if (fruitless) no_profiles_ = found.profile.missing.front();
}

void SearchLoop::had_trouble(const JobPtr& job) {
  constexpr int kPatience = 3;
  const Error trouble = *job->trouble;
  leave(*job);
  if (++troubles_ >= kPatience || trouble.stage == "missing")
    return stop(Outcome::Stop::failed, fmt::format("{}: {}", trouble.stage, trouble.message));
  record([&](Step& step) {
    tell(step, "trouble", job->id, fmt::format("{}: {} (will try again)", trouble.stage, trouble.message));
  });
  if (job->kind == Job::Kind::evaluate)
    owed_.push_back(job->id);          // duels and confirmations come again by themselves
  if (job->kind == Job::Kind::pace) {  // without, rather than not at all
    unpaced_ = false;
    doubted_ = nullptr;
  }
}

EvaluateRequest SearchLoop::request_for(Compiled variant) const {
  EvaluateRequest request;
  request.variant = std::move(variant);
  request.workloads = breeding_.workloads();
  request.sampling = sampling_of(config_.evaluation);
  return request;
}

Sampling SearchLoop::sampling_of(const EvaluationConfig& e) {
  Sampling sampling;
  sampling.screening_samples = e.screening_samples;
  sampling.screening_seconds = e.screening_seconds;
  sampling.max_samples = e.max_samples;
  sampling.max_seconds = e.max_seconds;
  sampling.oracle_rows = e.oracle_rows;
  return sampling;
}

}  // namespace cultivar
