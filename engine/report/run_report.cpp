// SPDX-License-Identifier: Apache-2.0
#include "engine/report/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/store/exchanges.hpp"
#include "engine/store/standings.hpp"

namespace cultivar {

namespace {

struct Person {
  std::string op, model;
  double fitness = 0.0;  // as in Standings; 0: rejected
  bool refused = false, challenged = false;
};

RunReport::Reasons most_frequent_first(const std::map<std::string, std::int64_t>& counts) {
  RunReport::Reasons reasons(counts.begin(), counts.end());
  std::ranges::stable_sort(reasons, std::greater<>(), &std::pair<std::string, std::int64_t>::second);
  return reasons;
}

void count_calls(const Record& record, RunReport& run_report) {
  for (const ExchangeRow& row : exchanges_of(record)) {
    Yield& yield = run_report.yields[{row.op, row.model}];
    ++yield.calls;
    yield.tokens += row.usage.total();
    yield.usd += row.usd;
  }
}

}  // namespace

RunReport tell(const Record& record) {
  RunReport run_report;
  run_report.summary = summary_of(record);
  run_report.interventions = interventions_of(record);
  std::map<IndividualId, Person> people;
  Standings standings(record);
  std::map<std::string, std::int64_t> rejections, unconfirmed;
  record.each_individual([&](const IndividualRow& row) {
    const Individual& i = row.individual;
    people[i.id] = {origin_name(i.descent), i.descent.model,
                    row.state == IndividualState::measured ? standings.fitness(row) : 0.0, row.expelled};
    if (const auto confirmation = row.expelled ? record.confirmation(i.id) : std::nullopt)
      ++unconfirmed[fmt::format("{}: {}", name_of(confirmation->stage), confirmation->reason)];
    ++run_report.yields[{origin_name(i.descent), i.descent.model}].proposed;
    if (row.state == IndividualState::rejected)
      ++rejections[row.stage + (i.duplicate_of != 0  ? ": duplicate of an earlier kernel"
                                : row.reason.empty() ? ""
                                                     : ": " + row.reason)];
  });
  run_report.rejections = most_frequent_first(rejections);
  run_report.unconfirmed = most_frequent_first(unconfirmed);

  record.each_decision([&](const DecisionRow& decision) {
    const IndividualId id = decision.individual;
    const auto found = people.find(id);
    if (decision.kind == DecisionKind::session) ++run_report.sessions;
    run_report.paced |= decision.kind == DecisionKind::pace;
    if (found == people.end()) return;
    Person& person = found->second;
    Yield& yield = run_report.yields[{person.op, person.model}];
    if (decision.kind == DecisionKind::judge) {
      const double device_s =
          decision.body.empty() ? 0.0 : nlohmann::json::parse(decision.body).at("device_s").get<double>();
      yield.device_s += device_s;
      run_report.device_s += device_s;
      ++(person.fitness > 0.0 ? yield.measured : yield.rejected);
      yield.best = std::max(yield.best, person.fitness);
      run_report.judged.push_back({id, person.op, decision.elapsed_s, person.fitness, person.refused});
    } else if (decision.kind == DecisionKind::challenge) {
      yield.challengers += !person.challenged;
      person.challenged = true;
    } else if (decision.kind == DecisionKind::promote) {
      ++yield.promoted;
      run_report.steps.push_back({id, static_cast<std::int64_t>(run_report.judged.size()), decision.elapsed_s,
                                  standings.fitness(id)});
    }
  });
  count_calls(record, run_report);
  if (const auto& best = run_report.summary.best; best)
    for (const auto& [name, ratio] : best->ratios)
      if (ratio > 0.0) run_report.contenders[name] = best->fitness / ratio;
  return run_report;
}

}  // namespace cultivar
