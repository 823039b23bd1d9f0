// SPDX-License-Identifier: Apache-2.0
// Which of several kernels a call goes to: a small decision tree over dimensions, parameters, products of
// them and their quotients, learnt from times.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

// The product of some dimensions or parameters, over another dimension if there is a divisor.
struct DispatchFeature {
  std::vector<std::string> factors = {};
  std::string divisor = {};

  double product(const Bindings&) const;  // of the factors alone
  double value(const Bindings&) const;
  std::size_t names() const { return factors.size() + (divisor.empty() ? 0 : 1); }
  friend bool operator==(const DispatchFeature&, const DispatchFeature&) = default;
};

// Whether a feature is at most a number.
struct DispatchTest {
  DispatchFeature feature = {};
  double most = 0.0;

  bool holds(const Bindings&) const;
  std::string words(bool holds) const;  // "B * H <= 64", "H * S_q > 16 * H_kv"
};

// A leaf, or a test with the nodes that follow where it holds and where it does not.
struct DispatchNode {
  DispatchTest test = {};            // without a feature: a leaf
  std::size_t holds = 0, fails = 0;  // indices of nodes
  // Of a leaf: all kernels, by their indices, in the order in which they are asked whether they accept a
  // call.
  std::vector<std::size_t> order = {};
  std::size_t shapes = 0;  // of those it was learnt from
  bool is_leaf() const { return test.feature.factors.empty(); }
};

class DispatchTable {
 public:
  std::vector<DispatchNode> nodes = {};  // the first is the root; others follow the node that names them

  std::size_t leaf_of(const Bindings&) const;  // its index among the nodes
  // The first kernel of the leaf's order for which `serves` holds; nodes.size() is never returned: without
  // any, the first.
  std::size_t choice(const Bindings&, const std::vector<bool>& serves) const;
  std::vector<std::string> conditions_of(std::size_t leaf) const;  // on the way from the root
  std::vector<std::size_t> leaves() const;
};

void to_json(nlohmann::json&, const DispatchTable&);
void from_json(const nlohmann::json&, DispatchTable&);  // throws nlohmann::json::exception

// Times of the kernels on one shape, by their indices; infinity: it does not serve the shape.
struct TimedShape {
  Bindings values;
  std::vector<double> seconds;

  double best() const;
  std::vector<bool> serves() const;
};

// How many times longer the chosen kernel takes than the best; 1: none serves the shape.
double regret(const DispatchTable&, const TimedShape&);

// What a table may test: dimensions, whole and optional parameters; products of two dimensions, and of all
// rows; one or two dimensions over another.
std::vector<DispatchFeature> dispatch_features(const Task&);

// The tree with the least sum of the logarithms of regrets plus `price` for each leaf, as far as greedy
// growth finds it, at most kMostTests deep, each leaf with at least `least` shapes. Of trees that are as good
// the one with fewer leaves; of tests, the one with fewer names, then with the widest gap, and there the
// roundest number near the middle. All shapes have a time for the same number of kernels; without shapes
// every call goes to the first. `further`: shapes without times, for which a random forest predicts the
// regrets. They count like the others, but not for `least`, nor in the leaves' `shapes`: where few
// shapes were measured, greedy tests follow their noise less (of 520 of attention, an eighth left out in
// turn: a regret of 1.023 instead of 1.035, the worst 1.5 instead of 8.1; the forest itself has 1.018).
inline constexpr int kMostTests = 6;
DispatchTable fit_table(const std::vector<TimedShape>&, std::size_t kernels,
                        const std::vector<DispatchFeature>& features, double price, std::size_t least = 1,
                        const std::vector<Bindings>& further = {});

// At most `most` of the kernels, the first always: one after another that which lowers the sum of the
// logarithms of the least times most, as long as that is more than `price`. Ascending.
std::vector<std::size_t> useful_kernels(const std::vector<TimedShape>&, std::size_t kernels, std::size_t most,
                                        double price);

}  // namespace cultivar
