// SPDX-License-Identifier: Apache-2.0
// Order statistics of small samples, and intervals by resampling. Pure functions; all of them throw
// std::invalid_argument for an empty sample.
#pragma once

#include <cstdint>
#include <functional>
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

// Resampling intervals for reports. The gate does not use them: a bootstrap interval is valid for a sample
// whose size was fixed in advance, not for one that is inspected while it grows (use sequential_test.hpp for
// that).

struct Interval {
  double lower = 0.0, upper = 0.0;
  bool operator==(const Interval&) const = default;
};

using Statistic = std::function<double(std::span<const double>)>;

// Percentile bootstrap of `statistic` at the given two-sided confidence (such as 0.95). Equal seeds give
// equal intervals. Throws std::invalid_argument for an empty sample.
Interval bootstrap_interval(std::span<const double> values, const Statistic& statistic, double confidence,
                            std::uint64_t seed, int resamples = 2000);

// As above, for median(numerator) / median(denominator); the two samples are resampled independently.
Interval bootstrap_ratio_of_medians(std::span<const double> numerator, std::span<const double> denominator,
                                    double confidence, std::uint64_t seed, int resamples = 2000);

}  // namespace cultivar
