// SPDX-License-Identifier: Apache-2.0
// Which points are not worth a proposal, by what was observed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

// Learns from duplicates which values of a knob make no difference, and so which points give a known kernel.
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

// Learns which pairs of values always fail, as a tile that spills with so many threads.
// A rule is a pair of values of two knobs (or one value of a knob) with which each observed point failed, so
// often that points that fail at random would have shown it with a probability below kChance; the share of
// points that fail is that of all observed ones. Failures that one rule explains count for no other, the rule
// with the most failures first. Remembers at most kMost failures. Not thread-safe.
class Refusals {
 public:
  static constexpr double kChance = 0.005;
  static constexpr std::size_t kMost = 1'000;

  explicit Refusals(const Space&);

  void add(std::span<const int> point, bool worked);
  // Whether the point presumably fails.
  bool expects(std::span<const int> point) const;

 private:
  struct Rule {
    std::size_t one = 0, other = 0;  // numbers of values; twice the same: of one value
  };
  std::size_t place(std::size_t knob, int value) const {
    return first_[knob] + static_cast<std::size_t>(value);
  }
  bool matches(const Rule&, std::span<const int> point) const;
  void learn();  // the rules anew

  std::vector<std::size_t> first_;  // by knob: the number of its first value among those of all knobs
  std::size_t values_ = 0;          // of all knobs
  std::vector<std::uint8_t>
      worked_;  // by two numbers of values, the smaller one first: whether a point with both worked
  std::uint64_t points_ = 0, failed_ = 0;
  std::vector<std::vector<int>> failures_;
  std::vector<Rule> rules_;
};

class Lessons {
 public:
  explicit Lessons(const Space& space) : kernels_(space), refusals_(space) {}

  // See KnownKernels::add.
  void add(const Point& point, bool worked, const std::optional<Point>& twin) {
    kernels_.add(point, worked, twin);
    refusals_.add(point, worked);
  }
  // Whether the point presumably fails, or gives the kernel of an observed one.
  bool avoids(const Point& point) const { return kernels_.contains(point) || refusals_.expects(point); }
  const KnownKernels& kernels() const { return kernels_; }

 private:
  KnownKernels kernels_;
  Refusals refusals_;
};

}  // namespace cultivar
