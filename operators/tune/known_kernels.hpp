// SPDX-License-Identifier: Apache-2.0
// Learns from duplicates which values of a knob make no difference, and so which points give a known kernel.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

// A point that gave the same kernel as an earlier one shows that the values in which the two differ are the
// same: of a tile that only other shapes use, or of two limits that no shape reaches. If the first and the
// last value of a knob and one between them are the same, so are all, until a kernel shows otherwise: a pair
// of points that differ only in such values and gave different kernels. Of a knob in which that pair differs
// nothing is learned any more, nor of duplicates that differ in it: what it does depends on the other knobs.
// Knows at most kMost points. Not thread-safe.
class KnownKernels {
 public:
  static constexpr std::size_t kMost = 20'000;

  explicit KnownKernels(const Space&);

  // The next observed point. `worked`: it gave a kernel that could be measured. `twin`: the earlier point
  // whose kernel it gave again.
  void add(const Point&, bool worked, const std::optional<Point>& twin);

  // Whether the point presumably gives the kernel of a point that was added, or fails as that one did.
  bool contains(std::span<const int> point) const { return seen_.contains(canonical(point)); }
  // The point with the least of the values that are the same: equal for points that give the same kernel.
  Point canonical(std::span<const int> point) const;

 private:
  struct Seen {
    Point point;
    bool distinct = false;  // gave a kernel of its own
    std::optional<Point> twin = {};
  };
  void learn();  // all anew
  void join(const Point&, const Point& twin);
  bool differ_in_dependent(const Point&, const Point&) const;
  // Notes the point; whether it contradicts what is known.
  bool note(const Seen&);

  std::vector<std::vector<int>> group_;  // of a knob's value: the least value that is the same
  std::vector<bool> dependent_;          // by knob: depends on others
  std::vector<Seen> history_;
  std::unordered_map<Point, Point, PointHash> seen_;  // canonical -> the distinct one, or empty
  bool any_ = false;
};

}  // namespace cultivar
