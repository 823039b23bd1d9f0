// SPDX-License-Identifier: Apache-2.0
// The recent value of each operator with each model: gain per cost. Determines the shares of
// the next proposals. A value; a pure function of its history, which a replay reproduces.
#pragma once

#include <cstddef>
#include <vector>

namespace cultivar {

struct BanditOptions {
  bool learn = false;    // false: the shares always equal the priors
  double floor = 0.15;   // the fraction that always follows the priors, so that every arm is tried again
  double memory = 60.0;  // number of trials after which a trial's weight has decayed to 1/e

  friend bool operator==(const BanditOptions&, const BanditOptions&) = default;
};

class Bandit {
 public:
  // `priors`: the configuration's weights, by arm.
  Bandit(std::vector<double> priors, BanditOptions);

  // A trial of this arm ended: evaluated, or given up. Arms out of range are ignored.
  void tried(std::size_t arm, double usd, double device_seconds);
  // A trial of this arm was faster than its parent, or became the incumbent; `gain` is the logarithm of the
  // ratio to the parent, or to the old incumbent.
  void gained(std::size_t arm, double gain);

  // By arm, with sum 1: the prior times the arm's gain per cost, relative to the mean rate. Dollars and
  // device seconds are each divided by their mean over all trials and weigh equally. An arm with few trials
  // is assumed to be close to the mean.
  std::vector<double> shares() const;

 private:
  struct Account {
    double trials = 0.0, gain = 0.0, usd = 0.0, seconds = 0.0;  // discounted
  };
  std::vector<double> priors_;
  BanditOptions options_;
  std::vector<Account> accounts_;
};

}  // namespace cultivar
