// SPDX-License-Identifier: Apache-2.0
#include "population/strategy.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "population/strategies/islands.hpp"
#include "population/strategies/lineage.hpp"
#include "population/strategies/map_elites.hpp"
#include "population/strategies/specialists.hpp"

namespace cultivar {

namespace {

template <class Made>
std::unique_ptr<Strategy> make(const PopulationOptions& options) {
  return std::make_unique<Made>(options);
}

struct Row {
  std::string_view name;
  StrategyKind kind;
  std::unique_ptr<Strategy> (*make)(const PopulationOptions&);
};
// Add a new strategy here.
constexpr std::array kRows{Row{"islands", StrategyKind::islands, make<Islands>},
                           Row{"lineage", StrategyKind::lineage, make<OneLine>},
                           Row{"map_elites", StrategyKind::map_elites, make<MapElites>}};

const Row& row_of(StrategyKind kind) {
  return *std::ranges::find(kRows, kind, &Row::kind);
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const PopulationOptions& options) {
  auto made = row_of(options.strategy).make(options);
  if (options.specialists > 0.0) return std::make_unique<Specialists>(options, std::move(made));
  return made;
}

std::string_view name_of(StrategyKind kind) {
  return row_of(kind).name;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

StrategyKind strategy_named(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &Row::name);
  if (found == kRows.end()) throw std::out_of_range("there is no strategy '" + std::string(name) + "'");
  return found->kind;
}

}  // namespace cultivar
