// SPDX-License-Identifier: Apache-2.0
#include "engine/export/portfolio_confirmations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/sampling.hpp"

namespace cultivar {
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
