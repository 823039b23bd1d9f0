// SPDX-License-Identifier: Apache-2.0
// How fast individuals are, as prompts say it: by the ratio of a duel where there was one, and otherwise by
// measurements at different times, whose difference counts only beyond their noise.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "operators/prompts/prompt_context.hpp"
#include "population/archive.hpp"

namespace cultivar {

// Reads each evaluation once. Not thread-safe.
class Speeds {
 public:
  explicit Speeds(const PromptContext& context) : s_(context) {}  // outlives it

  const std::optional<Evaluation>& evaluation(IndividualId) const;

  // On the search's workload number `w`, at the pace of the first incumbent. From duels as fitness is. 0:
  // unknown.
  double value(IndividualId, std::size_t w) const;
  // The logarithm of two fitness ratios beyond which two measurements differ: from the spread of their times
  // and from how wrong measurements were in the duels so far.
  double noise(IndividualId, IndividualId) const;
  // The speed of the first over the second, if it follows from duels and so without the noise of single
  // measurements.
  std::optional<SpeedByDuels> by_duels(IndividualId first, IndividualId second) const {
    return speed_by_duels(s_.archive, first, second);
  }
  // The speed of the first over the second, in a sentence's part, with its source: "+4.4 % (+3.9 to +5.0 %)
  // in a duel", "+68 % by one measurement of each, whose noise is 5 %", "no difference beyond the noise ...".
  std::string gain(IndividualId, IndividualId) const;
  // The workload on which the first gains least over the second, if the workloads do not agree beyond the
  // noise: "least on large: -20 %"; otherwise empty.
  std::string least_gain(IndividualId, IndividualId) const;
  // The result of a measured individual beside its parent: "2.31, duel: +4.4 % (...) over #12".
  std::string result(IndividualId) const;

 private:
  std::string slower_workloads(const DuelResult&) const;

  const PromptContext& s_;
  mutable std::map<IndividualId, std::optional<Evaluation>> evaluations_;
};

}  // namespace cultivar
