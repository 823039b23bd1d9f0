// SPDX-License-Identifier: Apache-2.0
#include "engine/views/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/store/exchanges.hpp"
#include "engine/store/standings.hpp"

namespace cultivar {

namespace {

RunReport::Reasons most_frequent_first(const std::map<std::string, std::int64_t>& counts) {
  RunReport::Reasons reasons(counts.begin(), counts.end());
  std::ranges::stable_sort(reasons, std::greater<>(), &std::pair<std::string, std::int64_t>::second);
  return reasons;
}

}  // namespace

RunReport tell(const Record& record) {
  RunIndex index;
  index.update(record);
  return tell(record, index);
}

std::map<std::pair<std::string, std::string>, Yield> yields_of(const Record& record, const RunIndex& index) {
  std::map<std::pair<std::string, std::string>, Yield> yields;
  const auto yield_of = [&](const KernelFacts& k) -> Yield& {
    return yields[{index.word(k.op), index.word(k.model)}];
  };
  for (const KernelFacts& k : index.kernels()) {
    Yield& yield = yield_of(k);
    ++yield.proposed;
    yield.challengers += k.challenged;
  }
  for (const RunIndex::Judgement& judgement : index.judged()) {
    const KernelFacts* const k = index.find(judgement.id);
    if (!k) continue;
    Yield& yield = yield_of(*k);
    yield.device_s += judgement.device_s;
    ++(k->fitness > 0.0 ? yield.measured : yield.rejected);
    yield.best = std::max(yield.best, k->fitness);
  }
  Standings standings(record);
  for (const RunIndex::Promotion& promotion : index.promotions()) {
    const KernelFacts* const k = index.find(promotion.id);
    if (!k) continue;
    Yield& yield = yield_of(*k);
    ++yield.promoted;
    if (const DuelResult* const duel = standings.duel(k->id))
      yield.gain = (1.0 + yield.gain) * std::exp(duel->all.log_ratio) - 1.0;
  }
  for (const ExchangeRow& row : exchanges_of(record)) {
    Yield& yield = yields[{row.op, row.model}];
    ++yield.calls;
    yield.tokens += row.usage.total();
    yield.usd += row.usd;
  }
  return yields;
}

RunReport tell(const Record& record, const RunIndex& index) {
  RunReport run_report;
  run_report.summary = summary_of(record);
  run_report.interventions = interventions_of(record);
  run_report.sessions = index.sessions();
  run_report.paced = index.paced();
  run_report.yields = yields_of(record, index);
  std::map<std::string, std::int64_t> rejections, unconfirmed;
  for (const KernelFacts& k : index.kernels()) {
    if (const auto confirmation = k.expelled ? record.confirmation(k.id) : std::nullopt)
      ++unconfirmed[fmt::format("{}: {}", name_of(confirmation->stage), confirmation->reason)];
    if (k.state != IndividualState::rejected) continue;
    const std::string& reason = index.word(k.reason);
    ++rejections[index.word(k.stage) + (reason.empty() ? "" : ": " + reason)];
  }
  run_report.rejections = most_frequent_first(rejections);
  run_report.unconfirmed = most_frequent_first(unconfirmed);
  for (const RunIndex::Judgement& judgement : index.judged()) {
    const KernelFacts* const k = index.find(judgement.id);
    if (!k) continue;
    run_report.device_s += judgement.device_s;
    run_report.judged.push_back({k->id, index.word(k->op), judgement.elapsed_s, k->fitness, k->expelled});
  }
  for (const RunIndex::Promotion& promotion : index.promotions())
    if (const KernelFacts* const k = index.find(promotion.id))
      run_report.steps.push_back({k->id, promotion.evaluations, promotion.elapsed_s, k->fitness});
  if (const auto& best = run_report.summary.best; best)
    for (const auto& [name, ratio] : best->ratios)
      if (ratio > 0.0) run_report.contenders[name] = best->fitness / ratio;
  return run_report;
}

nlohmann::json report_facts(const RunReport& run_report, const std::filesystem::path& folder,
                            const std::vector<std::string>& files) {
  nlohmann::json steps = nlohmann::json::array();
  for (const BestStep& step : run_report.steps)
    steps.push_back({{"id", step.id},
                     {"evaluations", step.evaluations},
                     {"elapsed_s", step.elapsed_s},
                     {"fitness", step.fitness}});
  return {{"folder", folder.string()},
          {"files", files},
          {"interventions", intervention_facts(run_report.interventions)},
          {"steps", steps},
          {"device_s", run_report.device_s}};
}

nlohmann::json intervention_facts(const std::vector<InterventionRow>& rows) {
  nlohmann::json interventions = nlohmann::json::array();
  for (const InterventionRow& row : rows) {
    interventions.push_back(to_json(row.intervention));
    interventions.back()["at_s"] = row.at_s;
    interventions.back()["text"] = text_of(row.intervention);
    interventions.back()["result"] = row.result ? to_json(*row.result) : nlohmann::json();
    interventions.back()["promoted"] = row.promoted;
  }
  return interventions;
}

}  // namespace cultivar
