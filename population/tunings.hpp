// SPDX-License-Identifier: Apache-2.0
// The elites of each source, under the source: many tunings take one place. And how parents are chosen among
// them.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "evaluators/system/random.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"
#include "population/strategy.hpp"

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

// Choosing parents among elites.

// The fittest of several drawn at random. `elites`: fittest first, not empty.
const Elite& tournament(const std::vector<Elite>& elites, int drawn, RandomStream&);

// How much faster the better of both is than `first`: the mean over the workloads of the logarithm of the
// ratio; 0 if the partner is nowhere faster, or if the workloads of one are unknown.
double complement(const Elite& first, const Elite& partner);

// The parents of a proposal, fittest first: `first`, and partners as wanted, drawn among `elites`
// (Partner::any, Partner::complement) or the other settings of its source. With Partner::complement, of
// several that are drawn the one with the largest complement.
std::vector<IndividualId> with_partners(const Elite& first, const std::vector<Elite>& elites, const Tunings&,
                                        const ParentsWanted&, int tournament, const Archive&, RandomStream&);

}  // namespace cultivar
