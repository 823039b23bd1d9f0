// What a tuner has observed: points with their costs or failures.
#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

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
  Observations(const Observations&) = delete;  // the index refers to the points
  Observations& operator=(const Observations&) = delete;

  // nullopt: the point failed. Observing a point again replaces its cost. Returns whether the point is new.
  bool add(const Point& point, std::optional<double> cost);

  std::size_t size() const { return log_cost_.size(); }
  std::size_t successes() const { return order_.size() + unordered_.size(); }
  bool contains(const Point& point, std::size_t first = kAll) const;
  std::span<const int> at(std::size_t i) const { return {values_.data() + i * knobs_, knobs_}; }
  Point point(std::size_t i) const { return {at(i).begin(), at(i).end()}; }
  // Observations since the best cost was found.
  std::size_t since_best() const { return size() - best_since_; }

  // Successful observations, lowest cost first, oldest first among equals.
  std::vector<std::size_t> ordered(std::size_t first = kAll);
  // Logarithms of costs, scaled to mean 0 and variance 1. Two thirds of the cap are the best observations;
  // the rest are evenly spaced others.
  Training costs(std::size_t cap, std::size_t first = kAll);
  // Of the newest `cap`: 1 for a success, 0 for a failure.
  Training outcomes(std::size_t cap, std::size_t first = kAll) const;

 private:
  // Observations are indexed by their points, which are stored once.
  struct HashAt {
    using is_transparent = void;
    const Observations* all;
    std::size_t operator()(std::span<const int> point) const noexcept { return PointHash{}(point); }
    std::size_t operator()(std::size_t at) const noexcept { return PointHash{}(all->at(at)); }
  };
  struct EqualAt {
    using is_transparent = void;
    const Observations* all;
    bool operator()(std::size_t a, std::size_t b) const { return a == b; }
    bool operator()(std::span<const int> a, std::size_t b) const;
    bool operator()(std::size_t a, std::span<const int> b) const { return (*this)(b, a); }
  };

  bool cheaper(std::size_t a, std::size_t b) const;
  void order();

  std::size_t knobs_;
  std::vector<int> values_;                      // of the points, one after another
  std::vector<std::optional<double>> log_cost_;  // nullopt: failed
  std::vector<std::size_t> order_,
      unordered_;  // the successful ones; new ones are put in order when it is needed
  std::unordered_set<std::size_t, HashAt, EqualAt> index_{0, HashAt{this}, EqualAt{this}};
  double best_ = std::numeric_limits<double>::infinity();
  std::size_t best_since_ = 0;  // number of observations when best_ was found
};

}  // namespace cultivar
