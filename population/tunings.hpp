// SPDX-License-Identifier: Apache-2.0
// The measured settings of each source, under the source: many tunings take one place among the elites.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "population/archive.hpp"
#include "population/elite.hpp"

namespace cultivar {

// Keeps the fittest settings of each source. A value type; not thread-safe.
class Tunings {
 public:
  static constexpr std::size_t kMost = 8;  // of one source

  void add(const Elite&);
  void revalue(IndividualId, double fitness);
  void expel(IndividualId);
  std::string source_of(IndividualId) const;                      // empty: not kept
  const std::vector<Elite>& of(const std::string& source) const;  // fittest first

 private:
  std::map<std::string, std::vector<Elite>> settings_;
};

}  // namespace cultivar
