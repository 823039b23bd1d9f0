// SPDX-License-Identifier: Apache-2.0
// The exact Mann-Whitney (rank-sum) test for batches in completely random order.
//
// A batch times one side n times and the other m times, in an order in which all C(n + m, n) arrangements are
// equally likely. A pair (one run of each side) is discordant if it contradicts the claim; a tie is
// discordant. If the claim does not hold, the number of discordant pairs is at least as large, in
// distribution, as if the labels of the sides had been drawn at random over times that the draw did not
// influence. Its exact distribution then follows by counting: no assumption about the noise of a run, and
// none about independence of runs. Complete separation (no discordant pair) has the probability
// 1 / C(n + m, n): 8e-7 for 5 and 40 runs, 1.4e-6 for 11 and 11.
//
// Pure functions and values.
#pragma once

#include <cstdint>
#include <vector>

namespace cultivar {

// The distribution of the number of discordant pairs within `batches` batches of the same size, pooled.
class Discordance {
 public:
  // Throws std::invalid_argument unless all are at least 1 and there are at most 10 million pairs.
  Discordance(int runs, int other_runs, int batches = 1);

  std::int64_t pairs() const { return pairs_; }
  double at_most(std::int64_t discordant) const;  // P(count <= discordant)
  // The greatest count with P(count <= it) <= alpha; -1 if there is none.
  std::int64_t critical(double alpha) const;

 private:
  std::int64_t pairs_;
  std::vector<double> cumulative_;  // for 0 to half of the pairs
};

struct BatchSize {
  int challenger = 0, incumbent = 0;  // runs
  friend bool operator==(const BatchSize&, const BatchSize&) = default;
};

// The cheapest batch (a run of each side costs that many seconds) whose complete separation has a probability
// of at most alpha; with `spare`, in which one run of the challenger may even be slower than every run of the
// incumbent. Each side has at least 3 runs; a side has at most 60 or (the cheaper one) 240.
BatchSize cheapest_batch(double alpha, double challenger_cost, double incumbent_cost, bool spare);

}  // namespace cultivar
