// SPDX-License-Identifier: Apache-2.0
// A random forest for regression, used in addition to the Gaussian process.
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <vector>

#include "operators/tune/space.hpp"

namespace cultivar {

// Extremely randomized trees (Geurts, Ernst & Wehenkel 2006): each tree is grown on all samples, and a split
// is the best of one random threshold for each feature. The variance follows from the law of total variance
// over trees and leaves (Hutter et al. 2014, "Algorithm runtime prediction", section 4.3). Features are
// compared in single precision. Not thread-safe; no global state.
class Forest {
 public:
  void fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, int trees, Random& random);
  void predict(const Eigen::MatrixXd& x, Eigen::VectorXd& mean, Eigen::VectorXd& variance) const;

 private:
  struct Node {  // a leaf: every point goes left, to the leaf itself
    float threshold = 0;
    std::int32_t feature = 0;
    std::int32_t left = 0;  // the right child follows the left one
  };
  struct Tree {
    std::int32_t root = 0;
    int depth = 0;
  };
  std::int32_t add_leaf(double mean, double variance);

  std::vector<Node> nodes_;            // nodes of all trees
  std::vector<double> mean_, second_;  // of the samples at a node: mean, and mean of squares
  std::vector<Tree> trees_;
};

}  // namespace cultivar
