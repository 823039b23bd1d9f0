// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/bootstrap.hpp"

#include <random>
#include <stdexcept>
#include <vector>

#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {
namespace {

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
