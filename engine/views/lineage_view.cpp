// SPDX-License-Identifier: Apache-2.0
#include "engine/views/lineage_view.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/views/individual_view.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

using nlohmann::json;

std::set<IndividualId> promoted_in(const Record& record) {
  std::set<IndividualId> promoted;
  for (const PromotionRow& promotion : record.promotions()) promoted.insert(promotion.individual);
  return promoted;
}

LineageTree whole_lineage(const Record& record, const std::set<IndividualId>& promoted,
                          Standings& standings) {
  std::map<IndividualId, IndividualRow> all;
  record.each_individual([&](const IndividualRow& row) { all.emplace(row.individual.id, row); });
  const auto parent_of = [&](IndividualId id) {
    const auto& parents = all.at(id).individual.descent.parents;
    if (parents.empty() || !all.contains(parents.front())) return IndividualId{0};
    if (parents.front() >= id)  // a circle would never end
      throw InputError(fmt::format("the record is damaged: #{}, a parent of #{}, is not older than it",
                                   parents.front(), id));
    return parents.front();
  };
  std::set<IndividualId> shown;
  for (const auto& [id, row] : all) {
    const IndividualId parent = parent_of(id);
    const bool setting = parent != 0 && all.at(parent).individual.source_id == row.individual.source_id;
    if (setting && !promoted.contains(id)) continue;
    for (IndividualId at = id; at != 0 && shown.insert(at).second;) at = parent_of(at);
  }
  LineageTree tree;
  for (const auto& [id, row] : all) {
    const IndividualId parent = parent_of(id);
    if (shown.contains(id)) {
      tree.rows.emplace(id, row);
      if (parent == 0)
        tree.roots.insert(id);
      else
        tree.children[parent].insert(id);
      continue;
    }
    IndividualId nearest = parent;
    while (!shown.contains(nearest)) nearest = parent_of(nearest);
    LineageTree::Settings& settings = tree.settings[nearest];
    ++settings.count;
    if (row.state != IndividualState::measured) continue;
    const double fitness = standings.fitness(row);
    if (fitness <= settings.fitness) continue;
    settings.fitness = fitness;
    settings.best = id;
  }
  return tree;
}

LineageTree lineage_of(const Record& record, IndividualId id) {
  LineageTree tree;
  IndividualId before = 0;
  for (const IndividualRow& row : record.lineage(id)) {
    const IndividualId at = row.individual.id;
    tree.rows.emplace(at, row);
    if (before == 0)
      tree.roots.insert(at);
    else
      tree.children[before].insert(at);
    before = at;
  }
  for (const IndividualId child : record.descendants(id))
    if (const auto row = record.individual(child)) {
      tree.rows.emplace(child, *row);
      tree.children[id].insert(child);
    }
  return tree;
}

json lineage_facts(const LineageTree& tree, const std::set<IndividualId>& promoted, Standings& standings) {
  json nodes = json::array();
  for (const auto& [id, row] : tree.rows) {
    json node = facts_of(row);
    node["promoted"] = promoted.contains(id);
    node["standing"] = standings.fitness(id);
    if (const DuelResult* const duel = standings.duel(id)) node["duel"] = facts_of(*duel);
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace cultivar
