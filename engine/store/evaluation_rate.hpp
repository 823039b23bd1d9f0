// SPDX-License-Identifier: Apache-2.0
// Evaluations per hour of search time: the one definition for everything that shows it.
#pragma once

#include <cstddef>
#include <deque>

#include "engine/store/record.hpp"

namespace cultivar {

// How it is counted, in words.
inline constexpr const char* kRateOver = "over the last 15 min or 20 evaluations, after the first";

// Counts from the end of an evaluation, so that the time before the first one ended, in which compilers start
// and the ceilings of the device are measured, is no part of it.
class EvaluationRate {
 public:
  void ended(double elapsed_s);  // an evaluation, at this search time; in order
  // Of those that ended in the last quarter of an hour, or of the last 20 if those are more; of at most 1000.
  // 0: not known yet.
  double per_hour(double elapsed_s) const;

 private:
  static constexpr double kWindow = 900.0;  // seconds
  static constexpr std::size_t kFewest = 20, kMost = 1000;
  friend EvaluationRate rate_of(const Record&);

  std::deque<double> ends_;
};

EvaluationRate rate_of(const Record&);  // of its evaluations so far; reads the last kMost

}  // namespace cultivar
