// SPDX-License-Identifier: Apache-2.0
#include "population/tunings.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

void Tunings::add(const Elite& elite) {
  auto& entry = *settings_.try_emplace(elite.source).first;
  std::vector<Elite>& settings = entry.second;
  if (settings.size() == kMost && !fitter(elite, settings.back())) return;
  if (!kept_.try_emplace(elite.id, &entry).second) return;
  settings.insert(std::ranges::upper_bound(settings, elite, fitter), elite);
  if (settings.size() <= kMost) return;
  kept_.erase(settings.back().id);
  settings.pop_back();
}

std::vector<Elite>* Tunings::settings_with(IndividualId id) {
  const auto found = kept_.find(id);
  return found == kept_.end() ? nullptr : &found->second->second;
}

void Tunings::revalue(IndividualId id, double fitness) {
  std::vector<Elite>* const settings = settings_with(id);
  if (settings == nullptr) return;
  std::ranges::find(*settings, id, &Elite::id)->fitness = fitness;
  std::ranges::sort(*settings, fitter);
}

void Tunings::expel(IndividualId id) {
  if (std::vector<Elite>* const settings = settings_with(id)) {
    std::erase_if(*settings, [&](const Elite& e) { return e.id == id; });
    kept_.erase(id);
  }
}

std::string Tunings::source_of(IndividualId id) const {
  const auto found = kept_.find(id);
  return found == kept_.end() ? std::string() : found->second->first;
}

const std::vector<Elite>& Tunings::of(const std::string& source) const {
  static const std::vector<Elite> none;
  const auto found = settings_.find(source);
  return found == settings_.end() ? none : found->second;
}

const Elite& tournament(const std::vector<Elite>& elites, int drawn, RandomStream& stream) {
  std::size_t best = below(stream, elites.size());  // elites are sorted, so the smallest index is the fittest
  for (int i = 1; i < drawn; ++i) best = std::min(best, below(stream, elites.size()));
  return elites[best];
}

double complement(const Elite& first, const Elite& partner) {
  const auto& ours = first.workload_values;
  const auto& theirs = partner.workload_values;
  if (ours.empty() || ours.size() != theirs.size()) return 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i] > 0.0 && theirs[i] > ours[i]) sum += std::log(theirs[i] / ours[i]);
  return sum / static_cast<double>(ours.size());
}

std::vector<IndividualId> with_partners(const Elite& first, const std::vector<Elite>& elites,
                                        const Tunings& tunings, const ParentsWanted& wanted, int drawn,
                                        const Archive& archive, RandomStream& stream) {
  std::vector<Elite> chosen{first};
  std::vector<Elite> left = wanted.partner == Partner::tuning ? tunings.of(first.source) : elites;
  // A source without other settings still has knobs in common with others.
  if (wanted.partner == Partner::tuning && left.size() < 2) left = elites;
  const ParentsOf parents_of = [&](IndividualId id) { return archive.parents(id); };
  std::erase_if(left, [&](const Elite& e) {
    if (e.id == first.id) return true;
    return wanted.partner == Partner::complement &&
           (e.source == first.source || in_one_line(e.id, first.id, parents_of));
  });
  while (static_cast<int>(chosen.size()) < wanted.count && !left.empty()) {
    std::size_t next = below(stream, left.size());
    const auto better = [&](std::size_t a, std::size_t b) {
      if (wanted.partner != Partner::complement) return a < b;
      const double ours = complement(first, left[a]), theirs = complement(first, left[b]);
      return ours != theirs ? ours > theirs : a < b;
    };
    for (int i = 1; i < drawn; ++i)
      if (const std::size_t other = below(stream, left.size()); better(other, next)) next = other;
    chosen.push_back(left[next]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
  std::ranges::sort(chosen, fitter);
  std::vector<IndividualId> parents;
  for (const Elite& elite : chosen) parents.push_back(elite.id);
  return parents;
}

}  // namespace cultivar
