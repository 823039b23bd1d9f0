// SPDX-License-Identifier: Apache-2.0
// Sequential tests about the center of symmetric noise, valid at every look, for any number of looks.
//
// The idea is a bet on signs. If values are symmetric about c, however heavy their tails and however their
// width changes, then for z = x - c and every odd h with |h| < 1 the factor 1 + h(z) has expectation one, so
// the product of such factors is a fair game. With a non-decreasing h it is also a losing game wherever the
// true center is below c. Wealth of 1/alpha is thus reached with a probability of at most alpha at any time
// (Ville's inequality), so a test may stop as soon as it is reached. Here h(z) = clamp(m z / s, -0.75, 0.75),
// where s is the robust deviation of the *earlier* values. One game is played for each m of a small grid, and
// the stake is divided among them (m = effect / deviation is the best bet, and unknown). The clamp limits the
// influence of outliers.
//
// Why timings may be assumed symmetric: two sides run in an order drawn by a fair coin, so if they are
// equal, the log ratio has the same distribution as its negative, whatever the machine did meanwhile. See
// README.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cultivar {

enum class Claim { above, below };

class SymmetricSeries;

// Tests whether the center of a series is above (below) `bound`. A value type.
class SequentialTest {
 public:
  // Throws std::invalid_argument unless 0 < alpha < 1 and the bound is finite.
  SequentialTest(Claim claim, double bound, double alpha);

  // Bets on the next row of the series; call before the series gets the row.
  void bet(const SymmetricSeries& earlier, std::span<const double> row);

  // As above, for a residual (value - bound) and a deviation computed from earlier values; 0 = no bet.
  void bet(double residual, double deviation);

  bool shown() const { return evidence_ >= threshold_; }  // once shown, always shown
  double evidence() const { return evidence_; }           // the greatest wealth so far; 1 = none
  double wealth() const { return now_; }                  // now
  // Whether it can be shown by that many further bets, if each wins as much as a bet can.
  bool within_reach(int bets) const;
  // The bets that show a claim at this level if each wins as much as a bet can.
  static int fewest_bets(double alpha);

 private:
  static constexpr std::size_t games = 6;
  std::array<double, games> wealth_;
  double sign_, bound_, threshold_, evidence_ = 1.0, now_ = 1.0;
};

// Rows of values, one column per workload, in order of arrival. The center of the series is the mean of the
// columns' centers. The residual of a row about a center t is the mean over the columns of clamp(value - t -
// d, -l, l), where d (the distance of this column's center from the mean of all, so the d sum to zero) and l
// (2.5 deviations) come from earlier rows. An outlier in one column thus does not dominate the others. With
// one column the residual is an odd function of value - t, and the tests are exact. With several columns they
// are exact to first order in the errors of d, which sum to zero; bench-gate-rates measures the remaining
// error.
class SymmetricSeries {
 public:
  explicit SymmetricSeries(std::size_t columns = 1);

  void add(std::span<const double> row);  // throws std::invalid_argument for a wrong number of columns
  // Rows from before the test began, which may be of any origin: they serve the estimates and are never bet
  // on. Call it before add(). At least four of them give the estimates that the first bet needs.
  void learn(std::span<const std::vector<double>> rows);

  std::size_t rows() const { return epoch_of_row_.size(); }
  std::vector<double> column(std::size_t index) const;

  // Robust estimates from the rows so far. The deviation is that of one row; 0 for fewer than four rows.
  double centre() const;  // throws std::invalid_argument for no rows
  double deviation() const { return epochs_.back().deviation; }
  double residual(std::span<const double> row, double centre) const {
    return residual(row, centre, epochs_.back());
  }

  // Confidence bounds that hold at all looks simultaneously: the centers that a SequentialTest has not
  // refuted at this alpha. Infinite while there are too few rows to refute anything.
  double lower_bound(double alpha) const;
  double upper_bound(double alpha) const;

 private:
  // The estimates that were known when a row arrived.
  struct Epoch {
    std::vector<double> offsets, limits;
    double deviation = 0.0;
  };
  std::span<const double> row(std::size_t index) const;
  double residual(std::span<const double> row, double centre, const Epoch& epoch) const;
  double bound(Claim claim, double alpha) const;
  void refresh();

  std::size_t columns_, refresh_at_ = 4;
  std::vector<double> values_;  // row by row
  std::vector<std::size_t> epoch_of_row_;
  std::vector<Epoch> epochs_;
};

// Distributes a run's budget of false promotions (alpha) over its comparisons.
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
