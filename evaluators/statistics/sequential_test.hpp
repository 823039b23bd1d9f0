// Sequential tests about the centre of symmetric noise, valid at every look, for any number of looks.
//
// The idea is a bet on signs. If values are symmetric about c, however heavy their tails and however their
// width changes, then for z = x - c and every odd h with |h| < 1 the factor 1 + h(z) has expectation one, so
// the product of such factors is a fair game; with a non-decreasing h it is also a losing game wherever the
// true centre is below c. Wealth of 1/alpha is thus reached with a probability of at most alpha at any time
// (Ville's inequality), which makes "stop as soon as it is reached" honest. Here h(z) = clamp(m z / s, -0.75,
// 0.75): s is the robust deviation of the *earlier* values, and one game is played for each m of a small
// grid, the stake being shared among them (m = effect / deviation is the best bet, and unknown). The clamp is
// what bounds the say of a wild value.
//
// Why symmetry may be assumed of timings: two sides are run in an order drawn by a fair coin, so if they are
// equal the log ratio has the same law as its negative, whatever the machine did meanwhile. See README.md.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace cultivar {

enum class Claim { above, below };

class SymmetricSeries;

// Shows, or does not, that the centre of a series is above (below) `bound`. A value.
class SequentialTest {
 public:
  // Throws std::invalid_argument unless 0 < alpha < 1 and the bound is finite.
  SequentialTest(Claim claim, double bound, double alpha);

  // Bets on the next row of the series, before the series gets it.
  void bet(const SymmetricSeries& earlier, std::span<const double> row);

  // The same for a bare residual (value - bound) and a deviation that comes from earlier values; 0 = do not
  // bet.
  void bet(double residual, double deviation);

  bool shown() const { return evidence_ >= threshold_; }  // once shown, always shown
  double evidence() const { return evidence_; }           // the greatest wealth so far; 1 = none

 private:
  static constexpr std::size_t games = 6;
  std::array<double, games> wealth_;
  double sign_, bound_, threshold_, evidence_ = 1.0;
};

// Rows of values, one column a workload, in the order in which they came; its centre is the mean of the
// columns' centres. The residual of a row about a centre t is the mean over the columns of clamp(value - t -
// d, -l, l), where d (how far this column's centre lies from the mean of all, so the d sum to zero) and l
// (2.5 deviations) come from earlier rows. A wild value in one column thus does not drown the others. With
// one column the residual is an odd function of value - t, and the tests are exact. With several they are
// exact to first order in the errors of d, which sum to zero; bench-gate-rates shows what is left of it.
class SymmetricSeries {
 public:
  explicit SymmetricSeries(std::size_t columns = 1);

  void add(std::span<const double> row);  // throws std::invalid_argument for a wrong number of columns

  std::size_t rows() const { return epoch_of_row_.size(); }
  std::vector<double> column(std::size_t index) const;

  // Robust, from the rows so far. The deviation is that of one row, and 0 while there are fewer than four.
  double centre() const;  // throws std::invalid_argument for no rows
  double deviation() const { return epochs_.back().deviation; }
  double residual(std::span<const double> row, double centre) const {
    return residual(row, centre, epochs_.back());
  }

  // Confidence bounds that hold at every look at once: all centres that a SequentialTest has not refuted at
  // this alpha. Infinite while too few rows have come to refute anything.
  double lower_bound(double alpha) const;
  double upper_bound(double alpha) const;

 private:
  // What was known when a row came.
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

}  // namespace cultivar
