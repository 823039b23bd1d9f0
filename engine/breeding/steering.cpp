// SPDX-License-Identifier: Apache-2.0
#include "engine/breeding/steering.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "operators/asking_operator.hpp"
#include "operators/registry.hpp"
#include "population/individual.hpp"

namespace cultivar {
namespace {

bool descends_from(const std::string& source, IndividualId id, const Archive& archive) {
  std::set<IndividualId> seen;
  std::vector<IndividualId> open{id};
  while (!open.empty()) {
    const IndividualId next = open.back();
    open.pop_back();
    for (const IndividualId parent : archive.parents(next)) {
      if (archive.source_id(parent) == source) return true;
      if (seen.insert(parent).second) open.push_back(parent);
    }
  }
  return false;
}

bool written_from(const std::string& source, IndividualId id, const Archive& archive) {
  if (archive.source_id(id) == source) return false;
  const auto parents = archive.parents(id);
  return std::ranges::any_of(parents, [&](IndividualId p) { return archive.source_id(p) == source; });
}

}  // namespace

void Lately::used(const std::string& source_id, const std::string& direction) {
  uses_.emplace_back(source_id, direction);
  if (uses_.size() > kMost) uses_.pop_front();
}

std::set<std::string> Lately::sources() const {
  std::set<std::string> all;
  for (const auto& [source, direction] : uses_) all.insert(source);
  return all;
}

std::set<std::string> Lately::directions() const {
  std::set<std::string> all;
  for (const auto& [source, direction] : uses_)
    if (!direction.empty()) all.insert(direction);
  return all;
}

std::vector<double> steered(std::vector<double> shares, const std::vector<Portfolio::Arm>& arms,
                            const std::optional<Intervention>& intervention) {
  if (!intervention) return shares;
  constexpr double kMore = 4.0;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const bool asks = arms[i].op->asking() != nullptr;
    if (intervention->answer == Answer::direction && asks) shares[i] *= kMore;
    if (intervention->answer == Answer::tuning && !asks) shares[i] *= kMore;
  }
  return shares;
}

std::set<Answer> possible_answers(const std::vector<Portfolio::Arm>& arms, const Strategy& strategy,
                                  StrategyKind kind, const std::vector<IndividualId>& ancestors) {
  std::set<Answer> possible;
  for (const Portfolio::Arm& arm : arms) {
    const bool asks = arm.op->asking() != nullptr;
    if (!asks) possible.insert(Answer::tuning);
    if (asks && arm.op->plans()) possible.insert(Answer::plan);
    if (asks && operator_named(arm.op->name()).writes) possible.insert(Answer::direction);
  }
  std::set<std::string> sources;
  for (int island = 0; island < strategy.islands(); ++island)
    for (const Elite& elite : strategy.elites(island)) sources.insert(elite.source);
  if (kind != StrategyKind::lineage && sources.size() > 1) possible.insert(Answer::parent);
  if (!ancestors.empty()) possible.insert(Answer::ancestor);
  if (strategy.islands() > 1) possible.insert(Answer::reset);
  return possible;
}

std::vector<IndividualId> older_ancestors(IndividualId best, const Archive& archive) {
  if (best == 0) return {};
  std::vector<IndividualId> line;
  for (const IndividualId id : chain_to_seed(best, [&](IndividualId i) { return archive.parents(i); })) {
    if (archive.state(id) != Member::State::measured || archive.source_id(id) == archive.source_id(best))
      continue;
    if (line.empty() || archive.source_id(line.back()) != archive.source_id(id)) line.push_back(id);
  }
  std::vector<IndividualId> tried;
  for (std::size_t at = line.size() / 2; !line.empty(); at /= 2) {
    tried.push_back(line[at]);
    if (at == 0) break;
  }
  return tried;
}

IndividualId faster_descendant(IndividualId id, const std::set<IndividualId>& candidates,
                               const Archive& archive) {
  if (archive.state(id) != Member::State::measured) return 0;
  const std::string& source = archive.source_id(id);
  IndividualId best = 0;
  for (const IndividualId other : candidates)
    if (archive.fitness(other) >= kLeftBehind * archive.fitness(id) && archive.source_id(other) != source &&
        (best == 0 || archive.fitness(other) > archive.fitness(best)) &&
        descends_from(source, other, archive))
      best = other;
  return best;
}

bool first_offspring_due(IndividualId id, const Archive& archive) {
  const std::string& source = archive.source_id(id);
  const auto of_it = [&](IndividualId other) { return written_from(source, other, archive); };
  if (std::ranges::none_of(archive.in_flight(), of_it)) return false;
  for (IndividualId other = id + 1; other <= archive.size(); ++other)
    if (archive.state(other) != Member::State::in_flight && archive.duplicate_of(other) == 0 && of_it(other))
      return false;
  return true;
}

}  // namespace cultivar
