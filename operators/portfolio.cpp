// SPDX-License-Identifier: Apache-2.0
#include "operators/portfolio.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "operators/asking_operator.hpp"

namespace cultivar {

Portfolio::Portfolio(std::vector<Share> shares) : shares_(std::move(shares)) {
  if (shares_.empty()) throw std::invalid_argument("a portfolio needs at least one operator");
  for (const Share& share : shares_) {
    if (!(share.weight > 0)) throw std::invalid_argument("an operator's weight must be positive");
    if (share.op->asking() == nullptr) {
      arms_.push_back({share.op.get(), "", share.weight});
      continue;
    }
    if (share.models.empty()) throw std::invalid_argument(share.op->name() + " needs a model to ask");
    for (const std::string& model : share.models)
      arms_.push_back({share.op.get(), model, share.weight / static_cast<double>(share.models.size())});
  }
}

std::size_t Portfolio::arm_of(const std::string& op, const std::string& model) const {
  std::size_t i = 0;
  while (i < arms_.size() && (arms_[i].model != model || arms_[i].op->name() != op)) ++i;
  return i;
}

std::vector<const Portfolio::Arm*> Portfolio::order(RandomStream& stream,
                                                    const std::function<bool(const Arm&)>& open,
                                                    const std::vector<double>& shares) const {
  struct Left {
    const Arm* arm;
    double share;
  };
  std::vector<Left> left;
  for (std::size_t i = 0; i < arms_.size(); ++i)
    if (!open || open(arms_[i])) left.push_back({&arms_[i], shares.empty() ? arms_[i].weight : shares[i]});
  std::vector<const Arm*> order;
  while (!left.empty()) {
    double total = 0;
    for (const Left& one : left) total += one.share;
    double draw = uniform(stream) * total;
    std::size_t chosen = 0;
    while (chosen + 1 < left.size() && draw >= left[chosen].share) draw -= left[chosen++].share;
    order.push_back(left[chosen].arm);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return order;
}

void Portfolio::observe(IndividualId id, const Archive& archive) {
  for (const Share& share : shares_) share.op->observe(id, archive);
}

void Portfolio::asked(const Brief& brief, const Archive& archive) {
  for (const Share& share : shares_)
    if (AskingOperator* const op = share.op->asking(); op != nullptr && op->name() == brief.op)
      op->asked(brief, archive);
}

void Portfolio::directed(IndividualId subject, const Directions& given) {
  for (const Share& share : shares_)
    if (AskingOperator* const op = share.op->asking()) op->directed(subject, given);
}

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
