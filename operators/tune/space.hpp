// SPDX-License-Identifier: Apache-2.0
// The search space of a tuner: a finite grid of knob values and a predicate for the feasible points.
#pragma once

#include <Eigen/Dense>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cultivar {

struct Knob {
  std::string name;
  std::vector<double> values;
  bool ordinal = true;  // false: categorical, without order or distance
};

// One value index per knob, in the order of the knobs.
using Point = std::vector<int>;

struct Space {
  std::vector<Knob> knobs;
  std::function<bool(std::span<const int>)> feasible;  // empty: every point is feasible
};

struct PointHash {
  std::size_t operator()(std::span<const int> point) const noexcept;
};

// The number of points of the grid, feasible or not, saturating at `limit`.
std::uint64_t grid_size(const Space& space, std::uint64_t limit);

bool is_feasible(const Space& space, const Point& point);

// Throws std::invalid_argument if the point is not on the grid.
void require_on_grid(const Space& space, const Point& point);

// Points as rows of real features for the surrogate.
// Every knob with more than one value becomes one or more features in [0, 1]:
//   ordinal: half its rank and half its logarithm (the linear value if it has values <= 0);
//   ordinal positive integers that are not all powers of two: also how often 2 divides them, because hardware
//     favors round numbers, which no smooth function of the value expresses;
//   categorical: one indicator per value.
class Encoding {
 public:
  explicit Encoding(const std::vector<Knob>& knobs);

  Eigen::Index features() const { return features_; }
  void encode(std::span<const int> point, double* row, Eigen::Index stride) const;
  Eigen::MatrixXd rows(std::span<const Point> points) const;
  // A simple distance between two points: per knob, the rank difference (ordinal) or inequality
  // (categorical).
  double distance(std::span<const int> a, std::span<const int> b) const;

 private:
  struct Block {
    std::size_t knob;
    Eigen::MatrixXd table;  // value index x feature
  };
  std::vector<Block> blocks_;
  std::vector<double> rank_scale_;  // 0: categorical
  Eigen::Index features_ = 0;
};

}  // namespace cultivar
