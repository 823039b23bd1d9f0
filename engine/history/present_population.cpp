// SPDX-License-Identifier: Apache-2.0
#include "engine/history/present_population.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/config/population_settings.hpp"
#include "engine/history/recorded_individuals.hpp"
#include "engine/store/decision_kind.hpp"
#include "engine/store/interventions.hpp"
#include "population/strategies/map_elites.hpp"
#include "population/strategies/specialists.hpp"

namespace cultivar {

using nlohmann::json;

PresentPopulation::PresentPopulation(const Record& record)
    : options_(recorded_population(record.facts().config_yaml)), strategy_(make_strategy(options_)) {}

std::vector<std::pair<std::string, Elite>> PresentPopulation::cells() const {
  const Strategy* strategy = strategy_.get();
  if (const auto* const with = dynamic_cast<const Specialists*>(strategy)) strategy = &with->others();
  const auto* const grid = dynamic_cast<const MapElites*>(strategy);
  if (grid == nullptr) return {};
  std::vector<std::pair<std::string, Elite>> cells(grid->cells().begin(), grid->cells().end());
  std::ranges::sort(cells, [](const auto& a, const auto& b) { return fitter(a.second, b.second); });
  return cells;
}

// What Breeding does with its archive and its strategy at each decision.
void PresentPopulation::update(const Record& record) {
  constexpr std::size_t kMoves = 100;
  // Results of individuals in flight are read before the decisions, and a search may write in between.
  SQLite::Transaction snapshot(record.database());
  RecordedIndividuals individuals(record, archive_);
  record.each_decision(
      [&](const DecisionRow& decision) {
        seq_ = decision.seq;
        const IndividualId id = decision.individual;
        switch (decision.kind) {
          case DecisionKind::propose:
            return archive_.add(individuals.next(id));
          case DecisionKind::judge: {
            RecordedIndividuals::Result result = individuals.result(id);
            Findings findings{result.measured, result.fitness / pace_, result.duplicate_of};
            archive_.judge(id, findings.measured, findings.fitness, findings.duplicate_of);
            if (findings.measured) {
              findings.workload_values = std::move(result.workload_values);
              if (options_.strategy == StrategyKind::map_elites)
                findings.descriptors = judge_body(decision.body).descriptors;
              strategy_->settle(id, findings, archive_);
            }
            (void)strategy_->judged();
            return;
          }
          case DecisionKind::duel: {
            DuelBody duel = duel_body(decision.body);
            if (!duel.result || incumbent_ == 0) return;
            const double fitness = archive_.fitness(incumbent_) * std::exp(duel.result->all.log_ratio);
            duel.result->incumbent = incumbent_;
            archive_.settle(id, fitness, *std::move(duel.result));
            return strategy_->revalue(id, fitness);
          }
          case DecisionKind::pace:
            pace_ = json::parse(decision.body).at("pace").get<double>();
            return;
          case DecisionKind::promote:
            incumbent_ = id;
            return strategy_->promoted(id);
          case DecisionKind::expel:
            archive_.expel(id);
            return strategy_->expel(id);
          case DecisionKind::intervene: {
            const Intervention intervention = intervention_in(decision.body);
            if (intervention.answer == Answer::reset) (void)strategy_->reset(archive_);
            if (intervention.answer == Answer::ancestor)
              (void)strategy_->reset(archive_, intervention.ancestor);
            return;
          }
          case DecisionKind::migrate: {
            const json body = json::parse(decision.body);
            moves_.push_back(
                {{id, body.at("from").get<int>(), body.at("to").get<int>(), body.value("reset", false)},
                 decision.elapsed_s});
            if (moves_.size() > kMoves) moves_.pop_front();
            ++moved_;
            return;
          }
          default:  // changes no parent
            return;
        }
      },
      seq_);
}

}  // namespace cultivar
