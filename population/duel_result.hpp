// SPDX-License-Identifier: Apache-2.0
// What a duel says about its challenger's speed. It replaces the fitness of the challenger's own measurement:
// that one was made at another time than the incumbent's, and the largest of many noisy values is too large.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/verdict/gate.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Natural logarithms of the challenger's speed over the incumbent's. A bound is infinite if there are too few
// runs for it.
struct SpeedRatio {
  double log_ratio = 0.0;
  double lower = -std::numeric_limits<double>::infinity(), upper = std::numeric_limits<double>::infinity();

  friend bool operator==(const SpeedRatio&, const SpeedRatio&) = default;
};

struct DuelResult {
  IndividualId incumbent = 0;
  Verdict verdict = Verdict::undecided;
  SpeedRatio all;                     // geometric mean of the workloads
  std::vector<SpeedRatio> workloads;  // in the order of the search's workloads

  friend bool operator==(const DuelResult&, const DuelResult&) = default;
};

// nullopt: the duel ended before both sides were timed, or undecided after fewer than four pairs and 30
// single runs with bounds so far apart that one measurement says as much.
std::optional<DuelResult> result_of(const Decision&, IndividualId incumbent);

// "+4.4 % (+3.9 to +5.0 %)", "-2.0 % (at most -0.5 %)", "+4.4 % (no bounds yet)".
std::string gain_words(const SpeedRatio&);
// "1.49x", "1.004x", "12.3x", "140x"; "-" if it is not finite. The dashboard's `times` writes the same.
std::string ratio_words(double ratio);

}  // namespace cultivar
