// SPDX-License-Identifier: Apache-2.0
// Learns which pairs of values always fail, as a tile that spills with so many threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

// A pair of values of two knobs (or one value of a knob) with which each observed point failed, so often that
// points that fail at random would have shown it with a probability below kChance. The share of points that
// fail is that of all observed ones. Memory: 8 bytes for each pair of values. Not thread-safe.
class Refusals {
 public:
  static constexpr double kChance = 0.005;

  explicit Refusals(const Space&);

  void add(std::span<const int> point, bool worked);
  // Whether the point presumably fails.
  bool expects(std::span<const int> point) const;

 private:
  struct Row {
    std::uint32_t seen = 0, worked = 0;
  };
  std::size_t place(std::size_t knob, int value) const {
    return first_[knob] + static_cast<std::size_t>(value);
  }

  std::vector<std::size_t> first_;  // by knob: the number of its first value among those of all knobs
  std::size_t values_ = 0;          // of all knobs
  std::vector<Row> rows_;  // by two numbers of values, the smaller one first; twice the same: of one value
  Row all_;
  std::uint32_t enough_ = 0;  // failures that chance would hardly give; 0: nothing is known
};

}  // namespace cultivar
