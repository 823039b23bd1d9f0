// Which operator makes the next proposal, and which model it asks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

class Portfolio {
 public:
  struct Share {
    std::unique_ptr<Operator> op;
    double weight = 1.0;                   // > 0
    std::vector<std::string> models = {};  // of one that asks: they share its weight equally
  };
  explicit Portfolio(std::vector<Share>);

  // What can be drawn: an operator, or an operator with one of its models.
  struct Arm {
    Operator* op = nullptr;
    std::string model;
    double weight = 1.0;
  };
  const std::vector<Arm>& arms() const { return arms_; }
  // The index of an arm; one past the last: there is none (a seed, an operator of an older configuration).
  std::size_t arm_of(const std::string& op, const std::string& model) const;

  // All arms that are open, each once: the one to ask first, drawn by share, and then those to ask when it
  // has nothing. `shares` is by arm; empty: the weights.
  std::vector<const Arm*> order(RandomStream&, const std::function<bool(const Arm&)>& open = {},
                                const std::vector<double>& shares = {}) const;
  void observe(IndividualId, const Archive&);
  void asked(const Brief&, const Archive&);

 private:
  std::vector<Share> shares_;
  std::vector<Arm> arms_;
};

}  // namespace cultivar
