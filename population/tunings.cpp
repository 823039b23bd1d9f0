// SPDX-License-Identifier: Apache-2.0
#include "population/tunings.hpp"

#include <algorithm>

namespace cultivar {

void Tunings::add(const Elite& elite) {
  auto& settings = settings_[elite.source];
  if (settings.size() == kMost && !fitter(elite, settings.back())) return;
  if (std::ranges::find(settings, elite.id, &Elite::id) != settings.end()) return;
  settings.insert(std::ranges::upper_bound(settings, elite, fitter), elite);
  if (settings.size() > kMost) settings.pop_back();
}

void Tunings::revalue(IndividualId id, double fitness) {
  for (auto& [source, settings] : settings_)
    if (const auto found = std::ranges::find(settings, id, &Elite::id); found != settings.end()) {
      found->fitness = fitness;
      std::ranges::sort(settings, fitter);
    }
}

void Tunings::expel(IndividualId id) {
  for (auto& [source, settings] : settings_)
    std::erase_if(settings, [&](const Elite& e) { return e.id == id; });
}

std::string Tunings::source_of(IndividualId id) const {
  for (const auto& [source, settings] : settings_)
    if (std::ranges::find(settings, id, &Elite::id) != settings.end()) return source;
  return {};
}

const std::vector<Elite>& Tunings::of(const std::string& source) const {
  static const std::vector<Elite> none;
  const auto found = settings_.find(source);
  return found == settings_.end() ? none : found->second;
}

}  // namespace cultivar
