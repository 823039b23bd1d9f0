// SPDX-License-Identifier: Apache-2.0
// The search space of a tuner: a finite grid of knob values and a predicate for the feasible points.
#pragma once

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

}  // namespace cultivar
