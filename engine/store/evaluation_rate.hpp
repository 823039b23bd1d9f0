// SPDX-License-Identifier: Apache-2.0
// Evaluations per hour of search time: the one definition for everything that shows it.
#pragma once

#include <cstddef>
#include <deque>

#include "engine/store/record.hpp"

namespace cultivar {

// How it is counted, in words.
inline constexpr const char* kRateOver = "from the first to the last of the newest 20, or of 15 min";

// Counts between ends of evaluations: the time before the first one ended, in which compilers start and the
// ceilings of the device are measured, is no part of it, and neither are comparisons after the last one.
class EvaluationRate {
 public:
  void ended(double elapsed_s);  // an evaluation, at this search time; in order
  // Of those that ended in the quarter of an hour before the last one, or of the newest 20 if those are more;
  // of at most 1000. 0: not known yet, since too few have ended to say more than chance.
  double per_hour() const;

 private:
  static constexpr double kWindow = 900.0;  // seconds
  static constexpr std::size_t kLeast = 4, kFewest = 20, kMost = 1000;
  friend EvaluationRate rate_of(const Record&);

  std::deque<double> ends_;
};

EvaluationRate rate_of(const Record&);  // of its evaluations so far; reads the last kMost

}  // namespace cultivar
