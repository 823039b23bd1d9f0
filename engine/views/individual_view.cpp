// SPDX-License-Identifier: Apache-2.0
#include "engine/views/individual_view.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/store/standings.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

using nlohmann::json;

std::string configuration_text(const Configuration& configuration) {
  std::string text;
  for (const auto& [name, value] : configuration)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, to_string(value));
  return text;
}

std::string descent_of(const Individual& individual) {
  const Descent& d = individual.descent;
  std::string text = origin_name(d);
  for (std::size_t i = 0; i < d.parents.size(); ++i)
    text += fmt::format("{} #{}", i ? " and" : " of", d.parents[i]);
  if (!d.parents.empty() && d.origin != Origin::submission) text += fmt::format(" on island {}", d.island);
  if (!d.note.empty()) text += ": " + plain_line(d.note, 400);
  return text;
}

std::string change_of(const Individual& parent, const Individual& child) {
  if (parent.source_id != child.source_id) return child.descent.note;
  std::string text;
  for (const auto& [name, value] : child.configuration) {
    const auto old = parent.configuration.find(name);
    if (old != parent.configuration.end() && old->second == value) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", name,
                        old == parent.configuration.end() ? "" : to_string(old->second) + " -> ",
                        to_string(value));
  }
  return text;
}

std::string_view name_of(IndividualState state) {
  static constexpr std::string_view names[] = {"proposed", "measured", "rejected"};
  return names[static_cast<int>(state)];
}

json facts_of(const IndividualRow& row) {
  const Individual& i = row.individual;
  json configuration = json::object();
  for (const auto& [name, value] : i.configuration)
    std::visit([&, &key = name](const auto& v) { configuration[key] = v; }, value);
  return {{"id", i.id},
          {"variant", i.variant_id},
          {"state", name_of(row.state)},
          {"stage", row.stage},
          {"reason", row.reason},
          {"expelled", row.expelled},
          {"fitness", i.fitness},
          {"configuration", configuration},
          {"parents", i.descent.parents},
          {"operator", origin_name(i.descent)},
          {"model", i.descent.model},
          {"island", i.descent.island},
          {"note", i.descent.note}};
}

std::string words_of_failure(const Evaluation& confirmation) {
  return fmt::format("Failed its confirmation at {}: {}", name_of(confirmation.stage), confirmation.reason);
}

std::string duel_text(const DuelResult& duel) {
  return fmt::format("{} side by side with #{}", gain_words(duel.all), duel.incumbent);
}

json facts_of(const DuelResult& duel) {
  const auto bound = [](double value) { return std::isfinite(value) ? json(std::exp(value)) : json(); };
  const auto facts = [&](const SpeedRatio& ratio) {
    return json{
        {"ratio", std::exp(ratio.log_ratio)}, {"lower", bound(ratio.lower)}, {"upper", bound(ratio.upper)}};
  };
  json all = facts(duel.all);
  all.update(
      {{"incumbent", duel.incumbent}, {"verdict", name_of(duel.verdict)}, {"workloads", json::array()}});
  for (const SpeedRatio& ratio : duel.workloads) all["workloads"].push_back(facts(ratio));
  return all;
}

// The nearest ancestor that was profiled on the same workload; the profile is compared with it.
std::optional<Profile> profiled_ancestor(const Record& record, IndividualId id, const Profile& profile) {
  const auto lineage = record.lineage(id);
  for (auto ancestor = lineage.rbegin(); ancestor != lineage.rend(); ++ancestor)
    if (ancestor->individual.id != id)
      if (auto found = record.profile(ancestor->individual.id, profile.workload)) return found;
  return std::nullopt;
}

json individual_facts(const Record& record, const IndividualRow& row) {
  const IndividualId id = row.individual.id;
  Standings standings(record);
  const DuelResult* const settled = standings.duel(id);
  const auto evaluation = record.evaluation(id), confirmation = record.confirmation(id);
  const auto profile = record.profile(id);
  const auto before = profile ? profiled_ancestor(record, id, *profile) : std::nullopt;
  json facts = facts_of(row);
  facts["profile"] = profile ? report_json(*profile, before ? &*before : nullptr) : json();
  facts["evaluation"] = evaluation ? json(*evaluation) : json();
  facts["confirmation"] = confirmation ? json(*confirmation) : json();
  facts["failure"] =
      confirmation && !confirmation->measured() ? json(words_of_failure(*confirmation)) : json();
  facts["confirmation_outstanding"] = record.outstanding() == id;
  facts["children"] = record.descendants(id);
  facts["source"] = record.source(id);
  json duels = json::array();
  for (const DuelRow& duel : record.duels(id))
    duels.push_back({{"incumbent", duel.incumbent}, {"verdict", duel.verdict}, {"report", duel.report}});
  facts["duels"] = duels;
  facts["standing"] = standings.fitness(id);
  facts["duel"] = settled ? facts_of(*settled) : json();
  return facts;
}

json exchange_facts(const ExchangeRow& row, const ExchangeTexts& said) {
  return {{"call", row.call},
          {"operator", row.op},
          {"model", row.model},
          {"attempt", row.attempt},
          {"request", said.request},
          {"answer", said.answer},
          {"error", row.error},
          {"usd", row.usd},
          {"sent_at", row.sent_at},
          {"seconds", row.over_at > row.sent_at ? json(row.over_at - row.sent_at) : json()},
          {"tokens", row.usage.total()},
          {"individual", row.used_by}};
}

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
