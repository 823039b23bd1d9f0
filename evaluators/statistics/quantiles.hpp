// SPDX-License-Identifier: Apache-2.0
// Order statistics of small samples. Pure functions; all of them throw std::invalid_argument for an empty
// sample.
#pragma once

#include <span>

namespace cultivar {

// Linear interpolation between order statistics (Hyndman and Fan's type 7, the default of R and NumPy).
// 0 <= p <= 1.
double quantile(std::span<const double> values, double p);

double median(std::span<const double> values);

struct Quartiles {
  double q1 = 0.0, median = 0.0, q3 = 0.0;
};
Quartiles quartiles(std::span<const double> values);

}  // namespace cultivar
