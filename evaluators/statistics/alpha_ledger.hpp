// SPDX-License-Identifier: Apache-2.0
// Distributes a run's budget of false promotions (alpha) over its comparisons.
#pragma once

#include <cstdint>

namespace cultivar {

// The k-th comparison of a run gets alpha / (2.11 (k + 1) ln^2(k + 1)). The series sums to less than alpha
// however long the run lasts, yet decays so slowly that the 1,000th comparison still gets 1/100,000 of alpha,
// 17 times what 1/k^2 would leave (and a sequential test pays only the logarithm). By the union bound, a run
// promotes any challenger whose true gain is below the gate's minimum with a probability of at most alpha. If
// a resumed search has another alpha, the bound is the greater of them. A value type; the number of
// comparisons is the only state to save and restore.
class AlphaLedger {
 public:
  // Throws std::invalid_argument unless 0 < alpha < 1. `comparisons` is the number already made, for a
  // resumed run.
  explicit AlphaLedger(double alpha, std::uint64_t comparisons = 0);

  double next();                                 // returns and spends the alpha of the next comparison
  double share(std::uint64_t comparison) const;  // the alpha of comparison 1, 2, ...
  double spent() const { return spent_; }        // always < alpha()
  double alpha() const { return alpha_; }
  std::uint64_t comparisons() const { return comparisons_; }

 private:
  double alpha_, spent_ = 0.0;
  std::uint64_t comparisons_ = 0;
};

}  // namespace cultivar
