// Which operator makes the next proposal.
#pragma once

#include <memory>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

class Portfolio {
 public:
  struct Share {
    std::unique_ptr<Operator> op;
    double weight = 1.0;  // > 0
  };
  explicit Portfolio(std::vector<Share>);

  // All operators, each once: the one to ask first, drawn by weight, and then those to ask when it has
  // nothing.
  std::vector<Operator*> order(RandomStream&) const;
  void observe(IndividualId, const Archive&);

 private:
  std::vector<Share> shares_;
};

}  // namespace cultivar
