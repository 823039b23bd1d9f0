// A random forest for regression, as a second opinion beside the Gaussian process.
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <vector>

#include "operators/tune/sampler.hpp"

namespace cultivar {

// Extremely randomised trees (Geurts, Ernst & Wehenkel 2006): each is grown on the whole sample, and a split
// is the best of one random threshold for each feature. The variance is the law of total variance over trees
// and leaves (Hutter et al. 2014, "Algorithm runtime prediction", section 4.3). Not thread-safe; no state
// beyond the object.
class Forest {
 public:
  void fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, int trees, Random& random);
  void predict(const Eigen::MatrixXd& x, Eigen::VectorXd& mean, Eigen::VectorXd& variance) const;

 private:
  struct Node {
    int feature = -1;  // -1: leaf
    int left = 0;      // the right child follows the left one's index by one
    double threshold = 0, mean = 0, variance = 0;
  };
  std::vector<std::vector<Node>> trees_;
};

}  // namespace cultivar
