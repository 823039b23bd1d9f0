// SPDX-License-Identifier: Apache-2.0
// What a tuner has observed: points with their costs or failures.
#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/system/number_table.hpp"
#include "operators/tune/space.hpp"

namespace cultivar {

// What a surrogate is trained on.
struct Training {
  std::vector<Point> points;
  Eigen::VectorXd y;
};

// In the order of the observations. `first` limits a question to that many of the oldest, so that its answer
// does not change when more are observed. A value type; not thread-safe.
class Observations {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  explicit Observations(std::size_t knobs) : knobs_(knobs) {}

  // nullopt: the point failed. Observing a point again replaces its cost. Returns whether the point is new.
  bool add(const Point& point, std::optional<double> cost);

  std::size_t size() const { return log_cost_.size(); }
  std::size_t successes() const { return order_.size() + unordered_.size(); }
  bool failed(std::size_t at) const { return std::isnan(log_cost_[at]); }
  std::optional<std::uint32_t> number_of(const Point&) const;
  bool contains(const Point& point, std::size_t first = kAll) const;
  Point point(std::size_t i) const {
    const auto from = values_.begin() + static_cast<std::ptrdiff_t>(i * knobs_);
    return {from, from + static_cast<std::ptrdiff_t>(knobs_)};
  }
  // Observations since the best cost was found.
  std::size_t since_best() const { return size() - best_since_; }

  // Successful observations, lowest cost first, oldest first among equals.
  std::vector<std::uint32_t> ordered(std::size_t first = kAll);
  // Logarithms of costs, scaled to mean 0 and variance 1. Two thirds of the cap are the best observations;
  // the rest are evenly spaced others.
  Training costs(std::size_t cap, std::size_t first = kAll);
  // Of the newest `cap`: 1 for a success, 0 for a failure.
  Training outcomes(std::size_t cap, std::size_t first = kAll) const;

 private:
  static constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();

  bool cheaper(std::size_t a, std::size_t b) const;
  void order();

  // There may be a million observations.
  std::size_t knobs_;
  std::vector<std::uint16_t> values_;  // of the points, one after another
  std::vector<double> log_cost_;       // kFailed, or the logarithm
  std::vector<std::uint32_t> order_,
      unordered_;      // the successful ones; new ones are put in order when it is needed
  NumberTable index_;  // by point
  double best_ = std::numeric_limits<double>::infinity();
  std::size_t best_since_ = 0;  // number of observations when best_ was found
};

}  // namespace cultivar
