// SPDX-License-Identifier: Apache-2.0
#include "operators/bandit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cultivar {

Bandit::Bandit(std::vector<double> priors, BanditOptions options)
    : priors_(std::move(priors)), options_(options), accounts_(priors_.size()) {
  const double total = std::accumulate(priors_.begin(), priors_.end(), 0.0);
  for (double& prior : priors_) prior /= total;
}

void Bandit::tried(std::size_t arm, double usd, double device_seconds) {
  if (!options_.learn || arm >= accounts_.size()) return;
  const double keep = std::exp(-1.0 / options_.memory);
  for (Account& a : accounts_) {
    a.trials *= keep;
    a.gain *= keep;
    a.usd *= keep;
    a.seconds *= keep;
  }
  accounts_[arm].trials += 1.0;
  accounts_[arm].usd += usd;
  accounts_[arm].seconds += device_seconds;
}

void Bandit::gained(std::size_t arm, double gain) {
  if (!options_.learn || arm >= accounts_.size()) return;
  accounts_[arm].gain += std::max(0.0, gain);
}

std::vector<double> Bandit::shares() const {
  Account all;
  for (const Account& a : accounts_) {
    all.trials += a.trials;
    all.gain += a.gain;
    all.usd += a.usd;
    all.seconds += a.seconds;
  }
  if (!options_.learn || !(all.trials > 0.0) || !(all.gain > 0.0)) return priors_;
  // Costs are normalized: the mean trial costs 1 for each kind of cost that occurs.
  const auto cost = [&](const Account& a) {
    double sum = 0.0;
    if (all.usd > 0.0) sum += a.usd / (all.usd / all.trials);
    if (all.seconds > 0.0) sum += a.seconds / (all.seconds / all.trials);
    return sum;
  };
  const double mean_gain = all.gain / all.trials, mean_cost = cost(all) / all.trials;
  if (!(mean_cost > 0.0)) return priors_;
  constexpr double kDoubt = 5.0;  // number of average trials added to every arm
  std::vector<double> shares(priors_.size());
  double total = 0.0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Account& a = accounts_[i];
    const double rate = (a.gain + kDoubt * mean_gain) / (cost(a) + kDoubt * mean_cost);
    shares[i] = priors_[i] * rate;
    total += shares[i];
  }
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = (1.0 - options_.floor) * shares[i] / total + options_.floor * priors_[i];
  return shares;
}

}  // namespace cultivar
