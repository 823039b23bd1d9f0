// Where candidate points come from: enumeration of small spaces, rejection and repair in large ones.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

using PointSet = std::unordered_set<Point, PointHash>;

// SplitMix64 (Steele, Lea & Flood 2014): the same numbers on every platform, unlike the standard distributions.
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

  explicit Sampler(const Space& space);  // the space must outlive the sampler

  // All feasible points when the grid was small enough, else empty and enumerated() is false.
  bool enumerated() const { return enumerated_; }
  const std::vector<Point>& feasible_points() const { return points_; }

  // A feasible point, or nothing after `tries` draws. In an enumerated space it is exactly uniform.
  std::optional<Point> draw(Random& random, int tries) const;
  // All feasible points that differ from `point` in one knob.
  void neighbours(const Point& point, std::vector<Point>& out) const;
  // A feasible point near `point`: `moves` random knob changes, or nothing.
  std::optional<Point> mutate(const Point& point, int moves, Random& random, int tries) const;
  std::optional<Point> cross(const Point& a, const Point& b, Random& random, int tries) const;

 private:
  const Space* space_;
  bool enumerated_ = false;
  std::vector<Point> points_;
};

}  // namespace cultivar
