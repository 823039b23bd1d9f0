// SPDX-License-Identifier: Apache-2.0
// Selects the operator for the next proposal, and the model that it asks: by a bandit.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

struct Directions;

class Portfolio {
 public:
  struct Share {
    std::unique_ptr<Operator> op;
    double weight = 1.0;                   // > 0
    std::vector<std::string> models = {};  // the models of an asking operator; they share its weight equally
  };
  explicit Portfolio(std::vector<Share>);

  // A choice: an operator, or an operator with one of its models.
  struct Arm {
    Operator* op = nullptr;
    std::string model;
    double weight = 1.0;
  };
  const std::vector<Arm>& arms() const { return arms_; }
  // The index of an arm; one past the last if there is none (a seed, or an operator of an older
  // configuration).
  std::size_t arm_of(const std::string& op, const std::string& model) const;

  // All open arms, each once, in the order in which to try them, drawn by share: a later one is used if the
  // earlier ones have no proposal. `shares` is by arm; empty: the weights.
  std::vector<const Arm*> order(RandomStream&, const std::function<bool(const Arm&)>& open = {},
                                const std::vector<double>& shares = {}) const;
  void observe(IndividualId, const Archive&);
  void asked(const Brief&, const Archive&);
  void directed(IndividualId subject, const Directions&);

 private:
  std::vector<Share> shares_;
  std::vector<Arm> arms_;
};

// The recent value of each operator with each model: gain per cost. Determines the shares of
// the next proposals. A value; a pure function of its history, which a replay reproduces.
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
