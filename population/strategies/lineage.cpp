// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/lineage.hpp"

#include <algorithm>

namespace cultivar {

namespace {
constexpr std::size_t kMost = 16;  // individuals that wait for their comparison
}  // namespace

void OneLine::settle(IndividualId id, const Findings& findings, const Archive& archive) {
  const Elite elite{id, findings.fitness, false, archive.source_id(id), 0, findings.workload_values};
  tunings_.add(elite);
  fittest_.insert(std::ranges::upper_bound(fittest_, elite, fitter), elite);
  if (fittest_.size() > kMost) fittest_.pop_back();
}

void OneLine::revalue(IndividualId id, double fitness) {
  tunings_.revalue(id, fitness);
  for (auto* list : {&fittest_, &line_})
    if (const auto found = std::ranges::find(*list, id, &Elite::id); found != list->end())
      found->fitness = fitness;
  std::ranges::sort(fittest_, fitter);
}

void OneLine::expel(IndividualId id) {
  tunings_.expel(id);
  for (auto* list : {&fittest_, &line_}) std::erase_if(*list, [&](const Elite& e) { return e.id == id; });
}

void OneLine::promoted(IndividualId id) {
  if (const auto found = std::ranges::find(fittest_, id, &Elite::id); found != fittest_.end())
    line_.push_back(*found);
  else
    line_.push_back({id});  // it waited longer than others that were fitter
}

std::vector<IndividualId> OneLine::parents(int, const ParentsWanted& wanted, const Archive& archive,
                                           RandomStream& stream) const {
  std::vector<Elite> earlier = line_.empty() ? fittest_ : line_;
  if (earlier.empty() || wanted.count < 1) return {};
  Elite end = line_.empty() ? fittest_.front() : line_.back();
  end.source = archive.source_id(end.id);
  std::ranges::sort(earlier, fitter);
  return with_partners(end, earlier, tunings_, wanted, options_.tournament, archive, stream);
}

std::vector<Elite> OneLine::elites(int) const {
  if (!line_.empty()) return {line_.back()};
  return fittest_.empty() ? fittest_ : std::vector<Elite>{fittest_.front()};
}

}  // namespace cultivar
