// Intervals for reports, from resampling. The gate does not use them: a bootstrap interval is honest for a
// sample whose size was fixed beforehand, not for one that is looked at while it grows (sequential_test.hpp
// is).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace cultivar {

struct Interval {
  double lower = 0.0, upper = 0.0;
  bool operator==(const Interval&) const = default;
};

using Statistic = std::function<double(std::span<const double>)>;

// Percentile bootstrap of `statistic` at the given two-sided confidence (0.95, say). The same seed gives the
// same interval. Throws std::invalid_argument for an empty sample.
Interval bootstrap_interval(std::span<const double> values, const Statistic& statistic, double confidence,
                            std::uint64_t seed, int resamples = 2000);

// The same for median(numerator) / median(denominator); the two samples are resampled independently.
Interval bootstrap_ratio_of_medians(std::span<const double> numerator, std::span<const double> denominator,
                                    double confidence, std::uint64_t seed, int resamples = 2000);

}  // namespace cultivar
