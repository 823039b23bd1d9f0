// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/sequential_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {

namespace {

// The m of each game, and its share of the stake: the largest shares go to effects that a few dozen to a few
// hundred values can show.
constexpr std::array<double, 6> boldness = {1.0 / 32, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1.0};
constexpr std::array<double, 6> share = {0.05, 0.10, 0.20, 0.25, 0.25, 0.15};

// No bet risks more than this fraction of the wealth: an outlier on the wrong side costs a factor of four,
// one on the right side gains a factor of 1.75.
constexpr double largest_stake = 0.75;
constexpr double plenty = 1e200;           // keeps a product of factors finite
constexpr double finest_deviation = 1e-6;  // timing cannot resolve a log ratio below one in a million
constexpr double wild = 2.5;               // in deviations; a column's value beyond this is clamped to it

}  // namespace

SequentialTest::SequentialTest(Claim claim, double bound, double alpha)
    : sign_(claim == Claim::above ? 1.0 : -1.0), bound_(bound), threshold_(1.0 / alpha) {
  if (!(alpha > 0.0 && alpha < 1.0))
    throw std::invalid_argument("the alpha of a test must be between 0 and 1");
  if (!std::isfinite(bound)) throw std::invalid_argument("the bound of a test must be finite");
  wealth_ = share;
}

void SequentialTest::bet(const SymmetricSeries& earlier, std::span<const double> row) {
  if (earlier.deviation() > 0.0) bet(earlier.residual(row, bound_), earlier.deviation());
}

void SequentialTest::bet(double residual, double deviation) {
  if (!(deviation > 0.0)) return;
  const double z = sign_ * residual / deviation;
  double sum = 0.0;
  for (std::size_t i = 0; i < games; ++i) {
    const double stake = std::clamp(boldness[i] * z, -largest_stake, largest_stake);
    wealth_[i] = std::min(wealth_[i] * (1.0 + stake), plenty);
    sum += wealth_[i];
  }
  now_ = sum;
  evidence_ = std::max(evidence_, sum);
}

bool SequentialTest::within_reach(int bets) const {
  return shown() || now_ * std::pow(1.0 + largest_stake, std::max(bets, 0)) >= threshold_;
}

int SequentialTest::fewest_bets(double alpha) {
  return static_cast<int>(std::ceil(std::log(1.0 / alpha) / std::log1p(largest_stake)));
}

SymmetricSeries::SymmetricSeries(std::size_t columns) : columns_(columns) {
  if (columns < 1) throw std::invalid_argument("a series needs at least one column");
  epochs_.push_back({std::vector<double>(columns, 0.0), std::vector<double>(columns, 0.0), 0.0});
}

void SymmetricSeries::add(std::span<const double> row) {
  if (row.size() != columns_)
    throw std::invalid_argument("a row of a series needs one value for each column");
  values_.insert(values_.end(), row.begin(), row.end());
  epoch_of_row_.push_back(epochs_.size() - 1);
  if (rows() >= refresh_at_) refresh();
}

void SymmetricSeries::learn(std::span<const std::vector<double>> rows) {
  for (const std::vector<double>& row : rows) {
    if (row.size() != columns_)
      throw std::invalid_argument("a row of a series needs one value for each column");
    values_.insert(values_.end(), row.begin(), row.end());
    epoch_of_row_.push_back(0);  // without a deviation: no bet
  }
  if (rows.size() >= refresh_at_) refresh();
}

std::span<const double> SymmetricSeries::row(std::size_t index) const {
  return std::span(values_).subspan(index * columns_, columns_);
}

std::vector<double> SymmetricSeries::column(std::size_t index) const {
  std::vector<double> values(rows());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = row(i)[index];
  return values;
}

double SymmetricSeries::centre() const {
  double sum = 0.0;
  for (std::size_t c = 0; c < columns_; ++c) sum += robust_location(column(c));
  return sum / static_cast<double>(columns_);
}

double SymmetricSeries::residual(std::span<const double> row, double centre, const Epoch& epoch) const {
  double sum = 0.0;
  for (std::size_t c = 0; c < columns_; ++c)
    sum += std::clamp(row[c] - centre - epoch.offsets[c], -epoch.limits[c], epoch.limits[c]);
  return sum / static_cast<double>(columns_);
}

void SymmetricSeries::refresh() {
  Epoch epoch;
  double mean = 0.0;
  for (std::size_t c = 0; c < columns_; ++c) {
    const std::vector<double> values = column(c);
    epoch.offsets.push_back(robust_location(values));
    epoch.limits.push_back(wild * std::max(robust_deviation(values), finest_deviation));
    mean += epoch.offsets.back() / static_cast<double>(columns_);
  }
  for (double& offset : epoch.offsets) offset -= mean;
  std::vector<double> residuals(rows());
  for (std::size_t i = 0; i < residuals.size(); ++i) residuals[i] = residual(row(i), mean, epoch);
  // The deviation of few values is uncertain, and underestimating it is the costlier error because it makes
  // bets too large. Lean toward a larger estimate.
  const double n = static_cast<double>(rows());
  epoch.deviation = std::max(robust_deviation(residuals) * (1.0 + 2.0 / n), finest_deviation);
  epochs_.push_back(std::move(epoch));
  refresh_at_ = rows() + 1 + rows() / 8;
}

double SymmetricSeries::lower_bound(double alpha) const {
  return bound(Claim::above, alpha);
}
double SymmetricSeries::upper_bound(double alpha) const {
  return bound(Claim::below, alpha);
}

double SymmetricSeries::bound(Claim claim, double alpha) const {
  const double sign = claim == Claim::above ? 1.0 : -1.0;
  const auto shown = [&](double centre) {
    SequentialTest test(claim, centre, alpha);
    for (std::size_t i = 0; i < rows(); ++i) {
      const Epoch& epoch = epochs_[epoch_of_row_[i]];
      test.bet(residual(row(i), centre, epoch), epoch.deviation);
    }
    return test.shown();
  };
  if (rows() == 0) return -sign * std::numeric_limits<double>::infinity();
  // The wealth of every game falls as the center that it refutes moves toward the claim. The refuted centers
  // therefore form a half-line, and bisection finds its end. Beyond `easy` every bet already has its largest
  // size.
  const auto [least, greatest] = std::minmax_element(values_.begin(), values_.end());
  const double reach = 10.0 * (*greatest - *least + 1.0);
  double easy = claim == Claim::above ? *least - reach : *greatest + reach;
  double hard = claim == Claim::above ? *greatest + reach : *least - reach;
  if (!shown(easy)) return -sign * std::numeric_limits<double>::infinity();
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (easy + hard);
    (shown(middle) ? easy : hard) = middle;
  }
  return easy;
}

AlphaLedger::AlphaLedger(double alpha, std::uint64_t comparisons) : alpha_(alpha) {
  if (!(alpha > 0.0 && alpha < 1.0))
    throw std::invalid_argument("the alpha of a run must be between 0 and 1");
  while (comparisons_ < comparisons) next();
}

double AlphaLedger::share(std::uint64_t comparison) const {
  if (comparison < 1) throw std::invalid_argument("comparison numbers start at 1");
  // The sum over n >= 2 of 1 / (n ln^2 n) is 2.10974...; rounded up, so that the sum of all shares stays
  // below alpha.
  constexpr double total = 2.1098;
  const double n = static_cast<double>(comparison) + 1.0;
  return alpha_ / (total * n * std::log(n) * std::log(n));
}

double AlphaLedger::next() {
  const double alpha = share(++comparisons_);
  spent_ += alpha;
  return alpha;
}

}  // namespace cultivar
