// SPDX-License-Identifier: Apache-2.0
#include "population/tunings.hpp"

#include <algorithm>

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

}  // namespace cultivar
