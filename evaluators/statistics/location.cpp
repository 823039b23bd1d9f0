// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/location.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {

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

}  // namespace cultivar
