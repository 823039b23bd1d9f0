// SPDX-License-Identifier: Apache-2.0
#include "engine/config/population_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/config.hpp"
#include "engine/config/settings.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

namespace {

// The keys of its strategy.
Settings settings_of(PopulationOptions& p) {
  Settings settings{{"tournament", &p.tournament, 1, 64}, {"specialists", &p.specialists, 0, 1}};
  if (p.strategy != StrategyKind::lineage) settings.push_back({"explore", &p.explore, 0, 1});
  if (p.strategy == StrategyKind::map_elites) settings.push_back({"cells", &p.cells, 1, 1e5});
  if (p.strategy != StrategyKind::islands) return settings;
  settings.insert(settings.end(), {{"islands", &p.islands, 1, 64},
                                   {"elites", &p.elites, 1, 1024},
                                   {"migrate_every", &p.migrate_every, 0, 1e6},
                                   {"immigrants", &p.immigrants, 0, 1024},
                                   {"family_elites", &p.family_elites, 1, 1024},
                                   {"reset_after", &p.reset_after, 0, 1e6},
                                   {"lead", &p.lead, 0, 1}});
  return settings;
}

}  // namespace

PopulationOptions population_defaults(Target target, int rules) {
  PopulationOptions options;
  options.rules = rules;
  if (rules < 2) {
    options.tournament = 2;
    options.explore = 0.2;
  }
  options.axes = target->on_host ? std::vector<std::string>{"family", "text_bytes"}
                                 : std::vector<std::string>{"family", "registers", "block_shared_bytes"};
  return options;
}

PopulationOptions read_population(const YamlNode& node, PopulationOptions options) {
  YamlMap map = node.map();
  if (auto strategy = map.optional("strategy")) {
    options.strategy = strategy_named(strategy->one_of(strategy_names()));
    if (options.strategy != StrategyKind::islands && options.rules < 2)
      strategy->fail("rules 1 have only the strategy `islands`: remove this key, or `rules`");
  }
  if (options.strategy == StrategyKind::map_elites) {
    options.explore = 0.2;
    options.tournament = 16;
    if (auto axes = map.optional("axes")) options.axes = axes->strings();
    if (options.axes.empty()) map.require("axes").fail("name at least one axis, for example [family]");
  }
  read_settings(map, settings_of(options));
  if (!map.has("family_elites")) options.family_elites = std::max(1, options.elites / 2);
  map.finish();
  if (2 * options.immigrants > options.elites)
    node.fail(fmt::format("immigrants ({}) must be at most half of elites ({}); more would merge the islands",
                          options.immigrants, options.elites));
  return options;
}

std::string population_yaml(PopulationOptions options) {
  const bool axes = options.strategy == StrategyKind::map_elites;
  return fmt::format("population:\n  strategy: {}\n{}{}", name_of(options.strategy),
                     axes ? "  axes: " + json_text(options.axes) + "\n" : "",
                     block_text(settings_of(options)));
}

PopulationOptions recorded_population(const std::string& yaml) {
  YamlMap map = parse_yaml(yaml, "the recorded configuration").map();
  const auto rules = map.optional("rules"), target = map.optional("target"),
             section = map.optional("population");
  const PopulationOptions options =
      population_defaults(target ? target_of(*target) : usual_target(),
                          rules ? static_cast<int>(rules->integer(1, kNewestRules)) : 1);
  return section ? read_population(*section, options) : options;
}

}  // namespace cultivar
