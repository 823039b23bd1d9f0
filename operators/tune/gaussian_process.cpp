// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/gaussian_process.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cultivar {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

constexpr double kSqrt5 = 2.23606797749978969;

// Squared distances between the rows of a and of b.
MatrixXd squared_distances(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd d(a.rows(), b.rows());
  d.noalias() = -2.0 * a * b.transpose();
  d.colwise() += a.rowwise().squaredNorm();
  d.rowwise() += b.rowwise().squaredNorm().transpose();
  return d.cwiseMax(0.0);
}

void matern52(MatrixXd& d) {
  for (Index j = 0; j < d.cols(); ++j) {  // by columns, so that intermediate values stay in the cache
    const Eigen::ArrayXd r = kSqrt5 * d.col(j).array().sqrt();
    d.col(j) = (1 + r + r.square() / 3) * (-r).exp();
  }
}

// Inverts a lower triangle in place; the upper part is neither read nor written.
void invert_lower(Eigen::Ref<MatrixXd> l) {
  constexpr Index kSmall = 24;
  const Index n = l.rows();
  if (n <= kSmall) {
    for (Index j = 0; j < n;
         ++j) {  // column j of the inverse by forward substitution; later columns are done
      l(j, j) = 1 / l(j, j);
      for (Index i = j + 1; i < n; ++i)
        l(i, j) = -(l.row(i).segment(j, i - j).dot(l.col(j).segment(j, i - j))) / l(i, i);
    }
    return;
  }
  const Index half = n / 2;
  invert_lower(l.topLeftCorner(half, half));
  invert_lower(l.bottomRightCorner(n - half, n - half));
  auto corner = l.bottomLeftCorner(n - half, half);
  const MatrixXd left = l.bottomRightCorner(n - half, n - half).triangularView<Eigen::Lower>() * corner;
  corner = -left * l.topLeftCorner(half, half).triangularView<Eigen::Lower>();
}

// The lower triangle of the inverse of L L^T from the lower triangle L, at a third of the cost of solving.
MatrixXd inverse_of(MatrixXd l) {
  constexpr Index kBlock = 48;
  const Index n = l.rows();
  invert_lower(l);
  l.triangularView<Eigen::StrictlyUpper>().setZero();
  MatrixXd inverse(n, n);
  for (Index at = 0; at < n; at += kBlock) {
    const Index rows = std::min(kBlock, n - at);
    inverse.block(at, 0, rows, at + rows).noalias() =
        l.block(at, at, n - at, rows).transpose() * l.block(at, 0, n - at, at + rows);
  }
  return inverse;
}

// The prior of the profiled scale: inverse gamma with this many pseudo-observations of variance 1 (the
// targets are standardized), which prevents overconfidence while there are few or only constant observations.
constexpr double kScaleObservations = 2;

constexpr double kNoiseMode = 1e-3;  // prior mode of the noise share

}  // namespace

GaussianProcess::GaussianProcess(Index features)
    : features_(features),
      length_prior_(0.4 + 0.5 * std::log(static_cast<double>(features))),
      theta_(VectorXd::Constant(features + 1, -2 * length_prior_)),
      steps_(VectorXd::Constant(features + 1, 0.3)) {
  theta_[features_] = std::log(kNoiseMode);
}

double GaussianProcess::noise_share() const {
  return std::exp(theta_[features_]);
}

MatrixXd GaussianProcess::embed(const MatrixXd& x, const VectorXd& theta) const {
  return x.array().rowwise() * (0.5 * theta.head(features_)).array().exp().transpose();
}

double GaussianProcess::density(const MatrixXd& x, const VectorXd& y, const VectorXd& theta,
                                VectorXd* gradient) const {
  const Index n = x.rows();
  const double noise = std::exp(theta[features_]);
  const MatrixXd z = embed(x, theta);
  MatrixXd r = squared_distances(z, z);
  MatrixXd slope(n, n);  // dk / d(r2) = -5/6 (1 + sqrt5 r) exp(-sqrt5 r); lower triangle, like r
  for (Index j = 0; j < n; ++j) {
    const Eigen::ArrayXd s = kSqrt5 * r.col(j).tail(n - j).array().sqrt(), e = (-s).exp();
    r.col(j).tail(n - j) = (1 + s + s.square() / 3) * e;
    slope.col(j).tail(n - j) = -5.0 / 6.0 * (1 + s) * e;
    r(j, j) = 1 + noise;
  }
  const Eigen::LLT<MatrixXd> llt(r);
  if (llt.info() != Eigen::Success) return -std::numeric_limits<double>::infinity();
  const VectorXd ones = VectorXd::Ones(n);
  const VectorXd solved_ones = llt.solve(ones);
  const double mean = solved_ones.dot(y) / (solved_ones.sum() + 1e-12);
  const VectorXd residual = y.array() - mean;
  const VectorXd alpha = llt.solve(residual);
  const double dof = static_cast<double>(n) + kScaleObservations;
  const double s2 = (residual.dot(alpha) + kScaleObservations) / dof;
  double value = -0.5 * dof * std::log(s2) - llt.matrixLLT().diagonal().array().log().sum();

  // Priors. log lengthscale of feature f ~ N(0.4 + log(D)/2, 1.5): growing with the dimension D as in
  // Hvarfner et al. 2024 ("Vanilla Bayesian optimization performs great in high dimensions"), a little
  // shorter; log noise ~ N(log 1e-3, 2).
  constexpr double kLengthSd = 1.5, kNoiseSd = 2;
  VectorXd prior_gradient = VectorXd::Zero(theta.size());
  for (Index f = 0; f < features_; ++f) {
    const double deviation = (-0.5 * theta[f] - length_prior_) / kLengthSd;
    value -= 0.5 * deviation * deviation;
    prior_gradient[f] = 0.5 * deviation / kLengthSd;
  }
  const double noise_deviation = (std::log(noise) - std::log(kNoiseMode)) / kNoiseSd;
  value -= 0.5 * noise_deviation * noise_deviation;
  prior_gradient[features_] = -noise_deviation / kNoiseSd;
  if (gradient == nullptr) return value;

  // d value = 1/2 tr((alpha alpha^T / s2 - R^-1) dR)
  MatrixXd half = inverse_of(llt.matrixLLT());  // its lower triangle
  for (Index j = 0; j < n; ++j) {
    auto column = half.col(j).tail(n - j);
    column = alpha.tail(n - j) * (alpha[j] / s2) - column;
    prior_gradient[features_] += 0.5 * noise * column[0];
    column.array() *= slope.col(j).tail(n - j).array();
  }
  const auto g = half.selfadjointView<Eigen::Lower>();
  const VectorXd rows = g * ones;
  // sum_ij g_ij (x_if - x_jf)^2 = 2 (x_f^T diag(g 1) x_f - x_f^T g x_f)
  const VectorXd spread = (x.array().square().colwise() * rows.array() - x.array() * MatrixXd(g * x).array())
                              .colwise()
                              .sum()
                              .transpose();
  prior_gradient.head(features_).array() += theta.head(features_).array().exp() * spread.array();
  *gradient = prior_gradient;
  return value;
}

void GaussianProcess::fit(const MatrixXd& x, const VectorXd& y, int steps) {
  // iRprop- (Igel & Huesken 2000): robust against the very different curvatures of the parameters; the best
  // point seen is kept, so a fit never leaves the density lower than it found it.
  VectorXd theta = theta_, previous = VectorXd::Zero(theta_.size()), gradient(theta_.size());
  VectorXd delta = steps_.cwiseMax(0.05).cwiseMin(0.5);
  double best = -std::numeric_limits<double>::infinity();
  for (int step = 0; step < steps; ++step) {
    const double value = density(x, y, theta, &gradient);
    if (!std::isfinite(value)) {
      theta = 0.5 * (theta + theta_);
      delta *= 0.5;
      continue;
    }
    if (value > best) {
      best = value;
      theta_ = theta;
    }
    for (Index i = 0; i < theta.size(); ++i) {
      const double product = gradient[i] * previous[i];
      if (product > 0) delta[i] = std::min(delta[i] * 1.2, 1.0);
      if (product < 0) {
        delta[i] = std::max(delta[i] * 0.5, 1e-4);
        gradient[i] = 0;
      }
      if (gradient[i] != 0) theta[i] += gradient[i] > 0 ? delta[i] : -delta[i];
    }
    previous = gradient;
  }
  steps_ = delta;
}

void GaussianProcess::solve_weights() {
  const MatrixXd& lower = lower_;
  const auto triangle = lower.triangularView<Eigen::Lower>();
  const Index n = y_.size();
  const VectorXd half_ones = triangle.solve(VectorXd::Ones(n));
  const VectorXd half_y = triangle.solve(y_);
  mean_ = half_ones.dot(half_y) / half_ones.squaredNorm();
  const VectorXd half = half_y - mean_ * half_ones;
  scale_ = (half.squaredNorm() + kScaleObservations) / (static_cast<double>(n) + kScaleObservations);
  alpha_ = lower.transpose().triangularView<Eigen::Upper>().solve(half);
}

void GaussianProcess::condition(const MatrixXd& x, const VectorXd& y) {
  z_ = embed(x, theta_);
  y_ = y;
  MatrixXd r = squared_distances(z_, z_);
  matern52(r);
  r.diagonal().setConstant(1 + noise_share());
  for (double jitter = 1e-8;; jitter *= 10) {
    const Eigen::LLT<MatrixXd> llt(r);
    if (llt.info() == Eigen::Success) {
      lower_ = llt.matrixLLT();
      break;
    }
    r.diagonal().array() += jitter;
  }
  solve_weights();
}

void GaussianProcess::append(const RowVectorXd& x, double y) {
  const Index n = y_.size();
  const MatrixXd z = embed(x, theta_);
  MatrixXd k = squared_distances(z_, z);
  matern52(k);
  const VectorXd row = lower_.triangularView<Eigen::Lower>().solve(VectorXd(k.col(0)));
  lower_.conservativeResize(n + 1, n + 1);
  lower_.row(n).head(n) = row.transpose();
  lower_(n, n) = std::sqrt(std::max(1 + noise_share() - row.squaredNorm(), 1e-10));
  z_.conservativeResize(n + 1, Eigen::NoChange);
  z_.row(n) = z;
  y_.conservativeResize(n + 1);
  y_[n] = y;
  const double scale = scale_;
  solve_weights();
  scale_ = scale;
}

MatrixXd GaussianProcess::correlations(const MatrixXd& x) const {
  MatrixXd k = squared_distances(z_, embed(x, theta_));
  matern52(k);
  return k;
}

VectorXd GaussianProcess::mean(const MatrixXd& correlations) const {
  return (correlations.transpose() * alpha_).array() + mean_;
}

VectorXd GaussianProcess::variance(MatrixXd correlations) const {
  lower_.triangularView<Eigen::Lower>().solveInPlace(correlations);
  return scale_ * (1 - correlations.colwise().squaredNorm().transpose().array()).max(1e-9);
}

VectorXd GaussianProcess::variance_bound(const MatrixXd& correlations) const {
  const VectorXd most = correlations.colwise().maxCoeff().transpose();
  return scale_ * (1 - most.array().square() / (1 + noise_share())).max(1e-9);
}

}  // namespace cultivar
