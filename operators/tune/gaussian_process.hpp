// SPDX-License-Identifier: Apache-2.0
// Gaussian-process regression that learns the relevance of each feature.
#pragma once

#include <Eigen/Dense>

namespace cultivar {

// k(x, x') = s2 * Matern52(r), r2 = sum_f w_f (x_f - x'_f)^2: every feature's relevance w is learned
// (Rasmussen & Williams, Gaussian Processes for Machine Learning, sections 4.2 and 5.4). The scale s2 and the
// constant mean are profiled out; w and the noise share maximize the marginal likelihood times priors. Inputs
// are rows of features scaled to [0, 1], at least one row. Not thread-safe; no global state.
class GaussianProcess {
 public:
  explicit GaussianProcess(Eigen::Index features);

  // Improves the hyperparameters with at most `steps` evaluations of the posterior density, starting from the
  // current ones (the first time from the prior's mode).
  void fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, int steps);
  // Conditions on data with the current hyperparameters.
  void condition(const Eigen::MatrixXd& x, const Eigen::VectorXd& y);
  // Adds one observation at the cost of a triangular solve.
  void append(const Eigen::RowVectorXd& x, double y);
  // Intermediate results for points (columns) from the observations (rows), from which the following are
  // computed:
  Eigen::MatrixXd correlations(const Eigen::MatrixXd& x) const;
  Eigen::VectorXd mean(const Eigen::MatrixXd& correlations) const;
  // Variance of the noiseless function. The bound costs one pass and is never below the variance: it is the
  // variance given only the most correlated observation.
  Eigen::VectorXd variance(Eigen::MatrixXd correlations) const;
  Eigen::VectorXd variance_bound(const Eigen::MatrixXd& correlations) const;

 private:
  double noise_share() const;  // noise variance divided by s2
  double density(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const Eigen::VectorXd& theta,
                 Eigen::VectorXd* gradient) const;
  Eigen::MatrixXd embed(const Eigen::MatrixXd& x, const Eigen::VectorXd& theta) const;
  void solve_weights();

  Eigen::Index features_;
  double length_prior_;    // mean of the log lengthscales
  Eigen::VectorXd theta_;  // log w, log noise share
  Eigen::VectorXd steps_;  // step sizes of Rprop, kept between fits
  Eigen::MatrixXd z_;      // embedded training inputs
  Eigen::VectorXd y_, alpha_;
  Eigen::MatrixXd lower_;  // Cholesky factor of the correlation matrix with noise; upper triangle unspecified
  double scale_ = 1, mean_ = 0;
};

}  // namespace cultivar
