// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace cultivar {

namespace {

double of_sorted(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("a quantile needs a non-empty sample");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

void require(std::span<const double> values, double confidence, int resamples) {
  if (values.empty()) throw std::invalid_argument("the bootstrap needs a non-empty sample");
  if (!(confidence > 0.0 && confidence < 1.0))
    throw std::invalid_argument("confidence must be between 0 and 1");
  if (resamples < 1) throw std::invalid_argument("the bootstrap needs at least one resample");
}

void resample(std::span<const double> values, std::mt19937_64& random, std::vector<double>& into) {
  into.resize(values.size());
  for (double& value : into) value = values[random() % values.size()];
}

Interval central(const std::vector<double>& statistics, double confidence) {
  const double tail = 0.5 * (1.0 - confidence);
  return {quantile(statistics, tail), quantile(statistics, 1.0 - tail)};
}

}  // namespace

double quantile(std::span<const double> values, double p) {
  if (!(p >= 0.0 && p <= 1.0))
    throw std::invalid_argument("a quantile's probability must be between 0 and 1");
  return of_sorted(sorted_copy(values), p);
}

double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

Quartiles quartiles(std::span<const double> values) {
  const std::vector<double> sorted = sorted_copy(values);
  return {of_sorted(sorted, 0.25), of_sorted(sorted, 0.5), of_sorted(sorted, 0.75)};
}

double geometric_mean(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("a geometric mean needs a non-empty sample");
  double sum = 0.0;
  for (const double value : values) {
    if (!(value > 0.0)) throw std::invalid_argument("a geometric mean needs positive values");
    sum += std::log(value);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

double robust_deviation(std::span<const double> values) {
  const double centre = median(values);
  std::vector<double> distances(values.size());
  std::transform(values.begin(), values.end(), distances.begin(),
                 [centre](double value) { return std::fabs(value - centre); });
  return 1.4826 * median(distances);
}

double robust_location(std::span<const double> values) {
  double centre = median(values);
  const double limit = 1.345 * robust_deviation(values);
  if (!(limit > 0.0)) return centre;  // more than half of the values are equal
  // Fixed-point iteration on mean(clamp(v - centre)) = 0: monotone, and converged long before 50 rounds.
  for (int round = 0; round < 50; ++round) {
    double pull = 0.0;
    for (const double value : values) pull += std::clamp(value - centre, -limit, limit);
    const double step = pull / static_cast<double>(values.size());
    centre += step;
    if (std::fabs(step) < 1e-9 * limit) break;
  }
  return centre;
}

Interval bootstrap_interval(std::span<const double> values, const Statistic& statistic, double confidence,
                            std::uint64_t seed, int resamples) {
  require(values, confidence, resamples);
  std::mt19937_64 random(seed);
  std::vector<double> drawn, statistics;
  for (int i = 0; i < resamples; ++i) {
    resample(values, random, drawn);
    statistics.push_back(statistic(drawn));
  }
  return central(statistics, confidence);
}

Interval bootstrap_ratio_of_medians(std::span<const double> numerator, std::span<const double> denominator,
                                    double confidence, std::uint64_t seed, int resamples) {
  require(numerator, confidence, resamples);
  require(denominator, confidence, resamples);
  std::mt19937_64 random(seed);
  std::vector<double> above, below, statistics;
  for (int i = 0; i < resamples; ++i) {
    resample(numerator, random, above);
    resample(denominator, random, below);
    statistics.push_back(median(above) / median(below));
  }
  return central(statistics, confidence);
}

}  // namespace cultivar
