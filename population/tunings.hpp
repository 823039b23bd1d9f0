// SPDX-License-Identifier: Apache-2.0
// The measured settings of each source, under the source: many tunings take one place among the elites.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "population/archive.hpp"
#include "population/elite.hpp"

namespace cultivar {

// Keeps the fittest settings of each source. Can be moved, not copied; not thread-safe.
class Tunings {
 public:
  Tunings() = default;
  Tunings(Tunings&&) = default;
  Tunings& operator=(Tunings&&) = default;

  static constexpr std::size_t kMost = 8;  // of one source

  void add(const Elite&);
  void revalue(IndividualId, double fitness);
  void expel(IndividualId);
  std::string source_of(IndividualId) const;                      // empty: not kept
  const std::vector<Elite>& of(const std::string& source) const;  // fittest first

 private:
  using Settings = std::map<std::string, std::vector<Elite>>;
  std::vector<Elite>* settings_with(IndividualId);  // nullptr: it is not kept

  Settings settings_;
  std::unordered_map<IndividualId, Settings::value_type*> kept_;  // a search revalues with every duel
};

}  // namespace cultivar
