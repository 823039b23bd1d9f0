// SPDX-License-Identifier: Apache-2.0
#include "operators/portfolio.hpp"

#include <stdexcept>

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

}  // namespace cultivar
