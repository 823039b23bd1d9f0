// SPDX-License-Identifier: Apache-2.0
#include "engine/breeding/subject.hpp"

#include <algorithm>
#include <string>
#include <vector>

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
