// SPDX-License-Identifier: Apache-2.0
// Selects the operator for the next proposal, and the model that it asks.
#pragma once

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

}  // namespace cultivar
