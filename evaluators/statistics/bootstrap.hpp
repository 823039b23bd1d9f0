// SPDX-License-Identifier: Apache-2.0
// Resampling intervals for reports. The gate does not use them: a bootstrap interval is valid for a sample
// whose size was fixed in advance, not for one that is inspected while it grows (use sequential_test.hpp for
// that).
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

// Percentile bootstrap of `statistic` at the given two-sided confidence (such as 0.95). Equal seeds give
// equal intervals. Throws std::invalid_argument for an empty sample.
Interval bootstrap_interval(std::span<const double> values, const Statistic& statistic, double confidence,
                            std::uint64_t seed, int resamples = 2000);

// As above, for median(numerator) / median(denominator); the two samples are resampled independently.
Interval bootstrap_ratio_of_medians(std::span<const double> numerator, std::span<const double> denominator,
                                    double confidence, std::uint64_t seed, int resamples = 2000);

}  // namespace cultivar
