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

// Robust estimates of location and scale: a few outliers have little influence. Pure functions; all of them
// throw std::invalid_argument for an empty sample.

// exp(mean(log(v))). Every value must be positive.
double geometric_mean(std::span<const double> values);

// 1.4826 x the median absolute deviation from the median: the standard deviation if the bulk is normal.
double robust_deviation(std::span<const double> values);

// Huber's M-estimate (k = 1.345, scale from robust_deviation): the mean of the bulk, 95 % efficient for
// normal samples. An outlier has no more influence than a value at 1.345 deviations.
double robust_location(std::span<const double> values);

}  // namespace cultivar
