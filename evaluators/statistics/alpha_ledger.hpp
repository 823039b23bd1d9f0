// How one run's budget of false promotions is spent over its comparisons.
#pragma once

#include <cstdint>

namespace cultivar {

// The k-th comparison of a run gets alpha / (2.11 (k + 1) ln^2(k + 1)): a series that sums to less than alpha
// however long the run lasts, yet decays so slowly that the 1,000th comparison still gets 1/100,000 of it, 17
// times what 1/k^2 would leave (and a sequential test pays only with the logarithm). By the union bound, a
// run promotes any challenger whose true gain is below the gate's with a probability of at most alpha. A
// value; the number of comparisons is all there is to save and restore.
class AlphaLedger {
 public:
  // Throws std::invalid_argument unless 0 < alpha < 1. `comparisons` is where a resumed run goes on.
  explicit AlphaLedger(double alpha, std::uint64_t comparisons = 0);

  double next();                                 // the alpha of the next comparison, which is now spent
  double share(std::uint64_t comparison) const;  // what comparison 1, 2, ... gets
  double spent() const { return spent_; }        // always < alpha()
  double alpha() const { return alpha_; }
  std::uint64_t comparisons() const { return comparisons_; }

 private:
  double alpha_, spent_ = 0.0;
  std::uint64_t comparisons_ = 0;
};

}  // namespace cultivar
