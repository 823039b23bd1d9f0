// SPDX-License-Identifier: Apache-2.0
#include "engine/store/standings.hpp"

#include <SQLiteCpp/Database.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/store/decision_kind.hpp"
#include "engine/store/rows.hpp"

namespace cultivar {

const std::vector<Standings::Numbered>& Standings::duels_of(IndividualId id) {
  const auto inserted = duels_.try_emplace(id);
  std::vector<Numbered>& duels = inserted.first->second;
  if (!inserted.second) return duels;
  // Without the times of an undecided duel, which may be long.
  each_row(
      record_.database(),
      "SELECT number, incumbent, json_extract(report, '$.decision') FROM duels WHERE challenger = ? ORDER BY "
      "number",
      [&](SQLite::Statement& row) {
        const auto decision = column<std::string>(row, 2);
        if (decision.empty()) return;
        if (auto result = result_of(json_in(decision).get<Decision>(), column<IndividualId>(row, 1)))
          duels.push_back({column<std::int64_t>(row, 0), *std::move(result)});
      },
      id);
  return duels;
}

const DuelResult* Standings::duel(IndividualId id) {
  const auto& duels = duels_of(id);
  return duels.empty() ? nullptr : &duels.back().result;
}

bool Standings::challenged(IndividualId id) {
  if (!challengers_) {
    challengers_.emplace();
    each_row(record_.database(), "SELECT DISTINCT challenger FROM duels",
             [&](SQLite::Statement& row) { challengers_->insert(column<IndividualId>(row, 0)); });
  }
  return challengers_->contains(id);
}

double Standings::pace(const Individual& individual) {
  // Seeds, and the first incumbent, were measured at the first pace; for others all decisions are read.
  if (!first_incumbent_) {
    const auto promotions = record_.promotions();
    first_incumbent_ = promotions.empty() ? 0 : promotions.front().individual;
  }
  if (individual.descent.origin == Origin::seed || individual.id == *first_incumbent_) return 1.0;
  if (!paces_) {
    paces_.emplace();
    double now = 1.0;
    each_row(record_.database(),
             "SELECT kind, individual, body FROM decisions WHERE kind IN ('judge', 'pace') ORDER BY seq",
             [&](SQLite::Statement& row) {
               if (decision_named(column<std::string>(row, 0)) == DecisionKind::pace)
                 now = column<nlohmann::json>(row, 2).at("pace").get<double>();
               else if (now != 1.0)
                 paces_->emplace(column<IndividualId>(row, 1), now);
             });
  }
  const auto found = paces_->find(individual.id);
  return found == paces_->end() ? 1.0 : found->second;
}

// Most individuals of a record have had no duel: nothing is read for them.
double Standings::fitness(const IndividualRow& row) {
  if (challenged(row.individual.id)) return fitness(row.individual.id);
  return row.individual.fitness > 0.0 ? row.individual.fitness / pace(row.individual) : 0.0;
}

double Standings::fitness(IndividualId id) {
  double log_ratio = 0.0;
  // Each duel is older than the one before, so that this ends for any record.
  for (std::int64_t before = std::numeric_limits<std::int64_t>::max();;) {
    const Numbered* last = nullptr;
    for (const Numbered& duel : duels_of(id))
      if (duel.number < before) last = &duel;
    if (!last) break;
    log_ratio += last->result.all.log_ratio;
    before = last->number;
    id = last->result.incumbent;
  }
  const auto row = record_.individual(id);
  if (!row || !(row->individual.fitness > 0.0)) return 0.0;
  return row->individual.fitness / pace(row->individual) * std::exp(log_ratio);
}

}  // namespace cultivar
