// SPDX-License-Identifier: Apache-2.0
// Generates candidate points: enumerates small spaces, uses rejection and repair in large ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

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
