// SPDX-License-Identifier: Apache-2.0
// Learns which pairs of values always fail, as a tile that spills with so many threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

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

}  // namespace cultivar
