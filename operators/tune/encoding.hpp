// SPDX-License-Identifier: Apache-2.0
// Points as rows of real features for the surrogate.
#pragma once

#include <Eigen/Dense>
#include <span>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

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
