#include "operators/portfolio.hpp"

#include <stdexcept>

namespace cultivar {

Portfolio::Portfolio(std::vector<Share> shares) : shares_(std::move(shares)) {
  if (shares_.empty()) throw std::invalid_argument("a portfolio needs at least one operator");
  for (const Share& share : shares_)
    if (!(share.weight > 0)) throw std::invalid_argument("an operator's weight must be positive");
}

std::vector<Operator*> Portfolio::order(RandomStream& stream) const {
  std::vector<const Share*> left;
  for (const Share& share : shares_) left.push_back(&share);
  std::vector<Operator*> order;
  while (!left.empty()) {
    double total = 0;
    for (const Share* share : left) total += share->weight;
    double draw = uniform(stream) * total;
    std::size_t chosen = 0;
    while (chosen + 1 < left.size() && draw >= left[chosen]->weight) draw -= left[chosen++]->weight;
    order.push_back(left[chosen]->op.get());
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return order;
}

void Portfolio::observe(IndividualId id, const Archive& archive) {
  for (const Share& share : shares_) share.op->observe(id, archive);
}

}  // namespace cultivar
