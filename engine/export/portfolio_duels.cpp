// SPDX-License-Identifier: Apache-2.0
#include "engine/export/portfolio_duels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/config.hpp"
#include "engine/config/duration.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

namespace {

class PortfolioDuels {
 public:
  PortfolioDuels(const Record& record, const Config& config, Evaluator& evaluator,
                 const PortfolioSettings& settings, const std::function<void(const std::string&)>& tell,
                 const std::atomic<bool>& stop, PortfolioProgress progress)
      : record_(record),
        config_(config),
        task_(*config.task),
        evaluator_(evaluator),
        settings_(settings),
        tell_(tell),
        stop_(stop),
        keep_(std::move(progress.keep)),
        workloads_(task_.workloads(config.workloads)->workloads),
        confirmations_(record, config, evaluator, tell, stop) {
    for (const Workload& workload : workloads_) names_.push_back(workload.name);
    options_ = config.gate;
    options_.alpha =
        config.gate_alpha /
        static_cast<double>(names_.size() * (static_cast<std::size_t>(settings.each) + settings.kernels - 1));
    if (progress.so_far.best == record.best()) portfolio_ = std::move(progress.so_far);
    std::erase_if(portfolio_.duels, [&](const SpecialistDuel& duel) {
      return duel.alpha != options_.alpha || settings.without.contains(duel.kernel);
    });
    portfolio_.best = record.best().value_or(0);
    portfolio_.left = 0;
  }

  Expected<KernelPortfolio> decided(std::string device) {
    if (portfolio_.device != device) {  // measured elsewhere
      portfolio_.duels.clear();
      portfolio_.confirmations.clear();
      portfolio_.refused.clear();
    }
    portfolio_.device = std::move(device);
    if (portfolio_.best == 0)
      return failure("portfolio", "the run has no best kernel yet; let it run longer");
    if (const auto compiled = compiled_for_search(portfolio_.best); !compiled)
      return failure("portfolio", fmt::format("the best kernel, #{}, no longer compiles: {}", portfolio_.best,
                                              compiled.error().reason));
    if (auto done =
            compare(specialist_candidates(record_, portfolio_.best, settings_.each, settings_.without));
        !done)
      return tl::make_unexpected(done.error());
    choose();
    if (auto done = compare(further_candidates(record_, portfolio_)); !done)
      return tl::make_unexpected(done.error());
    for (choose();; choose()) {
      const std::size_t refused = portfolio_.refused.size();
      for (const IndividualId id : portfolio_.kernels())
        if (auto done = confirm(id); !done) return tl::make_unexpected(done.error());
      if (portfolio_.refused.size() == refused) break;
    }
    std::erase_if(portfolio_.confirmations, [&](const auto& each) {
      const auto kernels = portfolio_.kernels();
      return std::find(kernels.begin(), kernels.end(), each.first) == kernels.end();
    });
    return portfolio_;
  }

 private:
  using Attempt = tl::expected<Compiled, Evaluation>;

  void choose() { choose_entries(portfolio_, names_, settings_.kernels); }

  const Attempt& compiled_for_search(IndividualId id) {
    const auto known = compiled_.find(id);
    if (known != compiled_.end()) return known->second;
    return compiled_.emplace(id, confirmations_.compiled(id, workloads_, Breadth::searching)).first->second;
  }

  Expected<void> compare(const std::vector<SpecialistCandidate>& candidates) {
    std::size_t ended = 0;
    for (const SpecialistCandidate& candidate : candidates) {
      if (stop_) return PortfolioConfirmations::interruption();
      const double so_far = seconds_since(began_);
      if (so_far >= settings_.max_seconds) {
        ++portfolio_.left;
        continue;
      }
      std::string left;
      if (ended > 0)
        left = fmt::format(", about {} left",
                           duration(std::min(settings_.max_seconds - so_far,
                                             (so_far - before_) / static_cast<double>(ended) *
                                                 static_cast<double>(candidates.size() - ended))));
      const std::string what = fmt::format("#{} on {} (duel {} of {}{})", candidate.kernel,
                                           names_.at(candidate.workload), ended + 1, candidates.size(), left);
      if (ended++ == 0) before_ = so_far;
      if (auto done = duel(candidate, what); !done) return done;
    }
    return {};
  }

  Expected<void> duel(const SpecialistCandidate& candidate, const std::string& what) {
    if (portfolio_.refused.contains(candidate.kernel) ||
        portfolio_.duel_of(candidate.kernel, names_.at(candidate.workload)))
      return {};
    tell_(what);
    const Attempt& challenger = compiled_for_search(candidate.kernel);
    if (!challenger) {
      portfolio_.refused[candidate.kernel] = "it no longer compiles: " + challenger.error().reason;
      return {};
    }
    GateRequest request;
    request.challenger = *challenger;
    request.incumbent = request.control = *compiled_for_search(portfolio_.best);
    request.workloads = {workloads_.at(candidate.workload)};
    request.options = options_;
    request.oracle_rows = config_.evaluation.oracle_rows;
    request.seed = stream_of(settings_.seed, names_.at(candidate.workload), candidate.kernel)();
    for (int attempt = 1;; ++attempt) {
      const auto report =
          evaluator_.gate(0, request, [&](const std::string& step) { tell_(what + ": " + step); });
      if (stop_) return PortfolioConfirmations::interruption();
      if (!report) return tl::make_unexpected(report.error());
      if (report->host_fault) {
        if (attempt < PortfolioConfirmations::kAttempts) continue;
        ++portfolio_.left;
        return {};
      }
      const Decision& d = report->decision;
      if (!report->trouble.empty() && d.verdict == Verdict::worse)
        portfolio_.refused[candidate.kernel] = report->trouble.front();
      portfolio_.duels.push_back({names_.at(candidate.workload), candidate.kernel, d.verdict, d.log_ratio,
                                  d.lower, d.upper, d.blocks, d.runs, d.device_seconds, options_.alpha});
      keep_(portfolio_);
      return {};
    }
  }

  // Those that go to the kernel.
  std::vector<Workload> workloads_of(IndividualId id) const {
    std::vector<Workload> all;
    for (std::size_t w = 0; w < workloads_.size(); ++w)
      if (portfolio_.entries.at(w).kernel == id) all.push_back(workloads_[w]);
    return all;
  }
  Expected<void> confirm(IndividualId id) {
    if (id == portfolio_.best) return {};
    const auto added = confirmations_.confirm(portfolio_, id, workloads_of(id));
    if (!added) return tl::make_unexpected(added.error());
    if (*added) keep_(portfolio_);
    return {};
  }

  const Record& record_;
  const Config& config_;
  const Task& task_;
  Evaluator& evaluator_;
  const PortfolioSettings& settings_;
  const std::function<void(const std::string&)>& tell_;
  const std::atomic<bool>& stop_;
  const std::function<void(const KernelPortfolio&)> keep_;
  const std::vector<Workload> workloads_;
  std::vector<std::string> names_;
  PortfolioConfirmations confirmations_;
  GateOptions options_;
  KernelPortfolio portfolio_;
  std::map<IndividualId, Attempt> compiled_;
  const Clock::time_point began_ = Clock::now();
  double before_ = 0.0;  // when the first of these duels began
};

}  // namespace

PortfolioWork portfolio_work(const Record& record, const Config& config, const PortfolioSettings& settings,
                             const KernelPortfolio& so_far) {
  const IndividualId best = record.best().value_or(0);
  const auto& workloads = config.task->workloads(config.workloads)->workloads;
  const bool goes_on = so_far.best == best;
  PortfolioWork work;
  std::set<IndividualId> kernels;
  for (const SpecialistCandidate& candidate :
       specialist_candidates(record, best, settings.each, settings.without)) {
    if (goes_on && so_far.duel_of(candidate.kernel, workloads.at(candidate.workload).name)) continue;
    ++work.duels;
    if (!record.confirmation(candidate.kernel)) kernels.insert(candidate.kernel);
  }
  work.duel_seconds =
      std::min(settings.max_seconds, static_cast<double>(work.duels) * config.gate.max_device_seconds);
  work.confirmations = std::min(kernels.size(), settings.kernels - 1);
  if (const auto before = record.confirmation(best))
    work.each_confirmation_s = before->check_seconds + before->measure_seconds + before->compile_seconds;
  return work;
}

Expected<KernelPortfolio> decide_portfolio(const Record& record, const Config& config, Evaluator& evaluator,
                                           const PortfolioSettings& settings,
                                           const std::function<void(const std::string&)>& tell,
                                           const std::atomic<bool>& stop, PortfolioProgress progress) {
  tell("starting the workers");
  evaluator.prefer(facts_in(record.facts().environment));
  const auto devices = evaluator.devices();
  if (!devices) return tl::make_unexpected(devices.error());
  if (auto ready = evaluator.prepare(0); !ready) return tl::make_unexpected(ready.error());
  return PortfolioDuels(record, config, evaluator, settings, tell, stop, std::move(progress))
      .decided(devices->front().description);
}

namespace {

// Whether a confirmation says all that is asked: it failed, or it timed these workloads.
bool timed_all(const Evaluation& confirmation, const std::vector<Workload>& workloads) {
  return !confirmation.measured() || std::ranges::all_of(workloads, [&](const Workload& workload) {
    return std::ranges::any_of(confirmation.workloads,
                               [&](const auto& w) { return w.workload == workload.name; });
  });
}

}  // namespace

tl::expected<Compiled, Evaluation> PortfolioConfirmations::compiled(IndividualId id,
                                                                    const std::vector<Workload>& workloads,
                                                                    Breadth breadth) {
  const auto row = record_.individual(id);
  auto variant = make_variant(record_.source(id), *config_.task, row->individual.configuration);
  if (!variant) return tl::make_unexpected(rejection(Stage::lint, variant.error().message, ""));
  return evaluator_.compile(*variant, workloads, breadth);
}

std::vector<std::pair<std::string, Compiled>> PortfolioConfirmations::contenders(
    const std::vector<Workload>& workloads, Breadth breadth) {
  std::vector<std::pair<std::string, Compiled>> all;
  for (const auto& source : config_.contenders) {
    const Variant beside = load_variant(source, *config_.task);
    if (!std::ranges::all_of(workloads, [&](const Workload& w) { return claims(beside, *config_.task, w); }))
      continue;
    if (auto contender = evaluator_.compile(beside, workloads, breadth))
      all.emplace_back(beside.manifest.name, std::move(*contender));
  }
  for (const std::string& library : config_.libraries) {
    Compiled contender = evaluator_.contender(library);
    all.emplace_back(contender.variant.manifest.name, std::move(contender));
  }
  return all;
}

// A kernel that was confirmed in the search needs only to be as exact as the best.
Expected<bool> PortfolioConfirmations::confirm(KernelPortfolio& portfolio, IndividualId id,
                                               const std::vector<Workload>& timed) {
  std::optional<Evaluation> evaluation = record_.confirmation(id);
  bool is_new = false;
  if (!evaluation) {
    if (const auto known = portfolio.confirmations.find(id); known != portfolio.confirmations.end())
      if (timed_all(known->second, timed)) evaluation = known->second;
    is_new = !evaluation;
    if (is_new) {
      auto found = confirmed_now(id, timed);
      if (!found) return tl::make_unexpected(found.error());
      evaluation = std::move(*found);
      portfolio.confirmations[id] = *evaluation;
    }
  }
  if (!evaluation->measured()) {
    portfolio.refused[id] =
        fmt::format("it failed its confirmation at {}: {}", name_of(evaluation->stage), evaluation->reason);
    return is_new;
  }
  const auto best = record_.confirmation(portfolio.best);
  if (!best) return is_new;
  if (const auto grown = error_growth(evaluation->exactness, best->exactness, config_.max_error_growth))
    portfolio.refused[id] = fmt::format(
        "it is less exact than gate.max_error_growth allows for {} inputs ({:.3g}, at most {:.3g})",
        grown->distribution, grown->of_allowed, grown->limit);
  return is_new;
}

Expected<Evaluation> PortfolioConfirmations::confirmed_now(IndividualId id,
                                                           const std::vector<Workload>& timed) {
  const std::string what = fmt::format("confirming #{}", id);
  tell_(what);
  std::vector<Workload> holdout;
  if (!config_.holdout.empty()) holdout = config_.task->workloads(config_.holdout)->workloads;
  std::vector<Workload> everything = timed;
  everything.insert(everything.end(), holdout.begin(), holdout.end());
  auto variant = compiled(id, everything, Breadth::confirming);
  if (!variant) return variant.error();
  EvaluateRequest request;
  request.variant = std::move(*variant);
  request.workloads = timed;
  request.holdout = holdout;
  request.sampling = sampling_of(config_.evaluation);
  request.stop_after = Stage::confirm;
  request.exactness = true;
  request.contenders = contenders(timed, Breadth::contender);
  for (int attempt = 1;; ++attempt) {
    auto found = evaluator_.evaluate(0, request, [&](const std::string& step) { tell_(what + ": " + step); });
    if (stop_) return interruption();
    if (!found || !(found->host_fault || found->late) || attempt == kAttempts) return found;
  }
}

}  // namespace cultivar
