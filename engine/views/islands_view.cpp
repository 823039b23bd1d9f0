// SPDX-License-Identifier: Apache-2.0
#include "engine/views/islands_view.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/views/run_views.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::size_t kElites = 64;  // of an island
constexpr std::size_t kCells = 500;

json counts_of(const RunIndex& index) {
  struct Island {
    std::int64_t proposed = 0, measured = 0, rejected = 0, promoted = 0;
    const KernelFacts* best = nullptr;
  };
  std::map<int, Island> islands;
  for (const KernelFacts& k : index.kernels()) {
    Island& island = islands[k.island];
    ++island.proposed;
    island.measured += k.state == IndividualState::measured;
    island.rejected += k.state == IndividualState::rejected;
    island.promoted += k.promoted;
    if (k.fitness > 0.0 && !k.expelled && (!island.best || k.fitness > island.best->fitness))
      island.best = &k;
  }
  json rows = json::array();
  for (const auto& [number, island] : islands)
    rows.push_back({{"island", number},
                    {"proposed", island.proposed},
                    {"measured", island.measured},
                    {"rejected", island.rejected},
                    {"promoted", island.promoted},
                    {"best", island.best ? row_facts(index, *island.best) : json()}});
  return rows;
}

json elite_facts(const RunIndex& index, const Elite& elite) {
  const KernelFacts* const k = index.find(elite.id);
  json facts = k ? row_facts(index, *k) : json{{"id", elite.id}};
  // By duels only if the version of the search recorded their ratios: the search orders its parents by it.
  const double fitness = facts.value("fitness", 0.0);
  if (std::abs(elite.fitness - fitness) > 1e-9 * std::abs(fitness))
    facts["fitness_in_search"] = elite.fitness;
  facts["immigrant"] = elite.immigrant;
  facts["family"] = elite.family;
  return facts;
}

// "family 3, registers 2^7" -> ["3", "2^7"]: a step of each axis. A value of a tunable may hold a comma.
json steps_of(const std::string& cell, const std::vector<std::string>& axes) {
  json steps = json::array();
  std::size_t at = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t from = std::min(cell.size(), at + axes[i].size() + 1);
    at = i + 1 < axes.size() ? cell.find(", " + axes[i + 1] + " ", from) : std::string::npos;
    at = std::min(at, cell.size());
    steps.push_back(plain_line(cell.substr(from, at - from), 100));
    at = std::min(cell.size(), at + 2);
  }
  return steps;
}

void add_parents(json& view, const RunIndex& index, const PresentPopulation& population) {
  const Strategy& strategy = population.strategy();
  view["strategy"] = name_of(population.options().strategy);
  for (json& island : view["islands"]) {
    const int number = island["island"].get<int>();
    json elites = json::array();
    if (number < 0 || number >= strategy.islands()) continue;
    const std::vector<Elite> all = strategy.elites(number);
    for (std::size_t i = 0; i < std::min(all.size(), kElites); ++i)
      elites.push_back(elite_facts(index, all[i]));
    island["elites"] = elites;
    island["all_elites"] = all.size();
  }
  json moves = json::array();
  for (const PresentPopulation::Move& move : population.moves())
    moves.push_back({{"id", move.migration.id},
                     {"from", move.migration.from},
                     {"to", move.migration.to},
                     {"reset", move.migration.reset},
                     {"elapsed_s", move.elapsed_s}});
  view["moves"] = moves;
  view["moved"] = population.moved();
  if (population.options().strategy != StrategyKind::map_elites) return;
  const auto all = population.cells();
  json cells = json::array();
  for (std::size_t i = 0; i < std::min(all.size(), kCells); ++i)
    cells.push_back({{"steps", steps_of(all[i].first, population.options().axes)},
                     {"elite", elite_facts(index, all[i].second)}});
  view["axes"] = population.options().axes;
  view["cells"] = cells;
  view["all_cells"] = all.size();
  view["most_cells"] = population.options().cells;
}

}  // namespace

json IslandsView::of(const Record& record, const RunIndex& index) {
  json view{{"islands", counts_of(index)}};
  try {
    if (!population_) population_ = std::make_unique<PresentPopulation>(record);
    population_->update(record);
    add_parents(view, index, *population_);
  } catch (const std::exception& error) {
    population_.reset();
    view["trouble"] = plain_line(error.what(), 1000);
  }
  return view;
}

}  // namespace cultivar
