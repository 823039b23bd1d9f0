// Sequential tests about the centre of symmetric noise, valid at every look, for any number of looks.
//
// The idea is a bet on signs. If values are symmetric about c, however heavy their tails and however their
// width changes, then for z = x - c and every odd h with |h| < 1 the factor 1 + h(z) has expectation one, so
// the product of such factors is a fair game; with a non-decreasing h it is also a losing game wherever the
// true centre is below c. Wealth of 1/alpha is thus reached with a probability of at most alpha at any time
// (Ville's inequality), which makes "stop as soon as it is reached" honest. Here h(z) = clamp(m z / s, -0.75,
// 0.75): s is the robust deviation of the *earlier* values, and one game is played for each m of a small
// grid, the stake being shared equally among them (m = effect / deviation is the best bet, and unknown). The
// clamp is what bounds the say of a wild value.
//
// Why symmetry may be assumed of timings: two sides are run in an order drawn by a fair coin, so if they are
// equal the log ratio has the same law as its negative, whatever the machine did meanwhile. See README.md.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace cultivar {

enum class Claim { above, below };

// Shows, or does not, that the centre is above (below) `bound`. A value.
class SequentialTest {
 public:
  // Throws std::invalid_argument unless 0 < alpha < 1 and the bound is finite.
  SequentialTest(Claim claim, double bound, double alpha);

  // `deviation` must come from earlier values only; 0 = look, do not bet.
  void add(double value, double deviation);

  bool shown() const { return evidence_ >= threshold_; }  // once shown, always shown
  double evidence() const { return evidence_; }           // the greatest wealth so far; 1 = none

 private:
  static constexpr std::array<double, 6> boldness = {1.0 / 32, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1.0};

  std::array<double, boldness.size()> wealth_;
  double sign_, bound_, threshold_, evidence_ = 1.0;
};

// Values in the order in which they came, each with the deviation that was known before it.
class SymmetricSeries {
 public:
  void add(double value);

  // The deviation to bet on the next value with: robust, from the values so far; 0 while there are fewer than
  // four.
  double deviation() const { return deviation_; }
  const std::vector<double>& values() const { return values_; }

  // Confidence bounds that hold at every look at once: all centres that a SequentialTest has not refuted at
  // this alpha. Infinite while too few values have come to refute anything.
  double lower_bound(double alpha) const;
  double upper_bound(double alpha) const;

 private:
  double bound(Claim claim, double alpha) const;

  std::vector<double> values_, deviations_;
  double deviation_ = 0.0;
  std::size_t refresh_at_ = 4;
};

}  // namespace cultivar
