// What each operator, with each model, has been worth lately: gate-confirmed gain for what it cost. Shares of
// the next proposals follow from it. A value; a pure function of its history, which replay tells again.
#pragma once

#include <cstddef>
#include <vector>

namespace cultivar {

struct BanditOptions {
  bool learn = false;    // false: the shares are the priors, for ever
  double floor = 0.15;   // this much of the shares always follows the priors: what does badly is tried again
  double memory = 60.0;  // trials after which a trial counts a third (1/e): what was good need not be so now

  friend bool operator==(const BanditOptions&, const BanditOptions&) = default;
};

class Bandit {
 public:
  // `priors`: the configuration's weights, by arm.
  Bandit(std::vector<double> priors, BanditOptions);

  // A trial of this arm is over: judged, or given up. Arms out of range are ignored.
  void tried(std::size_t arm, double usd, double device_seconds);
  // It brought forth a new incumbent that the gate confirmed; `gain` is the logarithm of the ratio to the
  // old.
  void gained(std::size_t arm, double gain);

  // By arm; they sum to 1. Prior times the arm's rate of gain for its costs, over the mean rate. Dollars and
  // device seconds count alike when each is divided by its mean over all trials. An arm that was hardly tried
  // is thought to be as good as the mean.
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
