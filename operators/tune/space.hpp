// SPDX-License-Identifier: Apache-2.0
// The search space of a tuner: a finite grid of knob values, a predicate for the feasible points, and draws
// of such points.
#pragma once

#include <Eigen/Dense>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
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

// Generates candidate points: enumerates small spaces, uses rejection and repair in large ones.

using PointSet = std::unordered_set<Point, PointHash>;

// SplitMix64 (Steele, Lea & Flood 2014): the same numbers on every platform, unlike the standard
// distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  int below(std::size_t bound);  // uniform up to a bias of bound / 2^32
  double uniform();              // [0, 1)

 private:
  std::uint64_t state_;
};

class Sampler {
 public:
  // Grids up to this size are enumerated once.
  static constexpr std::uint64_t kEnumerated = 200'000;
  static constexpr std::uint64_t kScanned = 5'000'000;

  explicit Sampler(const Space& space);  // the space must outlive the sampler

  // All feasible points if the grid is small enough; otherwise empty, and enumerated() is false.
  bool enumerated() const { return enumerated_; }
  const std::vector<Point>& feasible_points() const { return points_; }

  // A uniformly drawn feasible point, or nullopt when `tries`, which is decremented, reaches 0.
  std::optional<Point> draw(Random& random, int& tries) const;
  // All feasible points that differ from `point` in exactly one knob.
  void neighbours(const Point& point, std::vector<Point>& out) const;
  // `moves` random knob changes; nullopt if the result is infeasible or the same point.
  std::optional<Point> mutate(const Point& point, int moves, Random& random) const;
  // Every knob from a or from b; nullopt if the result is infeasible or one of the two.
  std::optional<Point> cross(const Point& a, const Point& b, Random& random) const;
  // The first feasible point in grid order that `accept` takes, in grids up to kScanned; proves when no point
  // is left.
  std::optional<Point> scan(const std::function<bool(const Point&)>& accept) const;

 private:
  const Space* space_;
  std::uint64_t grid_;  // saturated above kScanned
  bool enumerated_ = false;
  std::vector<Point> points_;
};

}  // namespace cultivar
