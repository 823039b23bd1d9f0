// SPDX-License-Identifier: Apache-2.0
#include "engine/export/dispatch_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "evaluators/system/json_fields.hpp"
#include "operators/tune/forest.hpp"

namespace cultivar {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of the logarithms of regrets: what is less is no difference.
constexpr double kNothing = 1e-9;

constexpr int kTrees = 200;
constexpr double kLeastValue = 1e-9;  // of a feature, whose logarithm the forest looks at

// The roundest whole number between two, about in their geometric middle; a half where there is none.
double between(double low, double high) {
  if (low < 0.0 || std::floor(high - kNothing) < low) return 0.5 * (low + high);
  const double ratio = low > 0.0 ? high / low : high;
  double least = low > 0.0 ? std::ceil(low * std::pow(ratio, 0.25)) : 0.0;
  double most = std::floor((low > 0.0 ? low : 1.0) * std::pow(ratio, 0.75));
  if (least > most || most >= high) least = low, most = std::ceil(high) - 1.0;
  if (least != std::floor(least)) return 0.5 * (low + high);
  for (double unit = 0x1p52; unit >= 1.0; unit /= 2.0)
    if (const double at = std::floor(most / unit) * unit; at >= least) return at;
  return least;
}

class Growth {
 public:
  Growth(const std::vector<TimedShape>& shapes, std::size_t kernels,
         const std::vector<DispatchFeature>& features, double price, std::size_t least,
         const std::vector<Bindings>& further)
      : measured_(shapes.size()), kernels_(kernels), features_(features), price_(price), least_(least) {
    for (const TimedShape& shape : shapes) shapes_.push_back(&shape.values);
    if (!shapes.empty())
      for (const Bindings& shape : further) shapes_.push_back(&shape);
    for (const DispatchFeature& feature : features) {
      auto& values = values_.emplace_back();
      for (const Bindings* shape : shapes_) values.push_back(feature.value(*shape));
    }
    // A kernel that does not serve a shape costs there what the first one does that serves it, in the order
    // in which they are good on all: that is where the call goes.
    std::vector<double> totals(kernels, 0.0);
    for (const TimedShape& shape : shapes)
      for (std::size_t k = 0; k < kernels; ++k) totals[k] += cost(shape, k, 1.0);
    const auto order = ordered(totals);
    for (const TimedShape& shape : shapes) {
      double instead = 0.0;
      for (const std::size_t k : order)
        if (std::isfinite(shape.seconds[k])) {
          instead = cost(shape, k, 0.0);
          break;
        }
      auto& own = costs_.emplace_back();
      for (std::size_t k = 0; k < kernels; ++k) own.push_back(cost(shape, k, instead));
    }
    if (shapes_.size() > measured_) predict();
  }

  DispatchTable table() {
    std::vector<std::size_t> all(shapes_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    const Node root = grown(all, 0);
    DispatchTable made;
    add(root, made);
    return made;
  }

 private:
  struct Node {
    DispatchTest test = {};
    std::vector<Node> children = {};  // none, or where the test holds and where it does not
    std::vector<std::size_t> order = {};
    std::size_t shapes = 0;
    double cost = 0.0;  // with the price of its leaves
    std::size_t leaves = 1;
  };

  // The costs of the shapes that were not measured.
  void predict() {
    Eigen::MatrixXd x(static_cast<Eigen::Index>(shapes_.size()), static_cast<Eigen::Index>(features_.size()));
    for (std::size_t f = 0; f < features_.size(); ++f)
      for (std::size_t s = 0; s < shapes_.size(); ++s)
        x(static_cast<Eigen::Index>(s), static_cast<Eigen::Index>(f)) =
            std::log(std::max(values_[f][s], kLeastValue));
    const auto measured = static_cast<Eigen::Index>(measured_);
    costs_.resize(shapes_.size(), std::vector<double>(kernels_));
    for (std::size_t k = 0; k < kernels_; ++k) {
      Eigen::VectorXd y(measured), mean, variance;
      for (std::size_t s = 0; s < measured_; ++s) y(static_cast<Eigen::Index>(s)) = costs_[s][k];
      Random random(k);
      Forest forest;
      forest.fit(x.topRows(measured), y, kTrees, random);
      forest.predict(x.bottomRows(x.rows() - measured), mean, variance);
      for (std::size_t s = measured_; s < shapes_.size(); ++s)
        costs_[s][k] = mean(static_cast<Eigen::Index>(s - measured_));
    }
    for (std::size_t s = measured_; s < shapes_.size(); ++s) {
      const double best = std::ranges::min(costs_[s]);
      for (double& each : costs_[s]) each -= best;
    }
  }

  std::size_t measured_of(const std::vector<std::size_t>& some) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(some, [&](std::size_t s) { return s < measured_; }));
  }

  static double cost(const TimedShape& shape, std::size_t kernel, double otherwise) {
    const double best = shape.best();
    if (!std::isfinite(best)) return 0.0;
    return std::isfinite(shape.seconds[kernel]) ? std::log(shape.seconds[kernel] / best) : otherwise;
  }
  static std::vector<std::size_t> ordered(const std::vector<double>& totals) {
    std::vector<std::size_t> order(totals.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return totals[a] < totals[b] - kNothing; });
    return order;
  }
  std::vector<double> totals_of(const std::vector<std::size_t>& some) const {
    std::vector<double> totals(kernels_, 0.0);
    for (const std::size_t s : some)
      for (std::size_t k = 0; k < kernels_; ++k) totals[k] += costs_[s][k];
    return totals;
  }

  Node grown(const std::vector<std::size_t>& some, int depth) const {
    const std::vector<double> totals = totals_of(some);
    Node leaf;
    leaf.order = ordered(totals);
    leaf.shapes = measured_of(some);
    const double left = kernels_ == 0 ? 0.0 : totals[leaf.order.front()];
    leaf.cost = left + price_;
    if (depth == kMostTests || left <= std::max(price_, kNothing)) return leaf;
    DispatchTest test = best_test(some);
    if (test.feature.factors.empty()) return leaf;
    auto [holds, fails] = parted(some, test);
    if (shapes_.size() > measured_) {  // so dense that the numbers between them are not round
      const DispatchTest round{test.feature, two_digits(test.most)};
      auto parts = parted(some, round);
      if (std::min(measured_of(parts.first), measured_of(parts.second)) >= std::max<std::size_t>(1, least_))
        test = round, std::tie(holds, fails) = std::move(parts);
    }
    Node split{test, {grown(holds, depth + 1), grown(fails, depth + 1)}, {}, leaf.shapes, 0.0, 0};
    for (const Node& child : split.children) split.cost += child.cost, split.leaves += child.leaves;
    return split.cost < leaf.cost - kNothing ? split : leaf;
  }

  // Where the test holds, and where it does not.
  std::pair<std::vector<std::size_t>, std::vector<std::size_t>> parted(const std::vector<std::size_t>& some,
                                                                       const DispatchTest& test) const {
    std::pair<std::vector<std::size_t>, std::vector<std::size_t>> parts;
    for (const std::size_t s : some) (test.holds(*shapes_[s]) ? parts.first : parts.second).push_back(s);
    return parts;
  }
  static double two_digits(double number) { return std::stod(fmt::format("{:.1e}", number)); }

  // Without a feature: nothing tells these shapes apart.
  DispatchTest best_test(const std::vector<std::size_t>& some) const {
    DispatchTest best;
    double least = kNever, gap = 0.0;
    const std::size_t measured = measured_of(some);
    const std::vector<double> totals = totals_of(some);
    for (std::size_t f = 0; f < features_.size(); ++f) {
      std::vector<std::size_t> by_value = some;
      std::ranges::sort(by_value, {}, [&](std::size_t s) { return values_[f][s]; });
      std::vector<double> below(kernels_, 0.0);
      std::size_t lower = 0;  // of the measured ones
      for (std::size_t i = 0; i + 1 < by_value.size(); ++i) {
        for (std::size_t k = 0; k < kernels_; ++k) below[k] += costs_[by_value[i]][k];
        lower += by_value[i] < measured_ ? 1U : 0U;
        const double low = values_[f][by_value[i]], high = values_[f][by_value[i + 1]];
        if (!(low < high) || lower < least_ || measured - lower < least_) continue;
        double under = kNever, over = kNever;
        for (std::size_t k = 0; k < kernels_; ++k)
          under = std::min(under, below[k]), over = std::min(over, totals[k] - below[k]);
        // Each further name must be worth more than a tenth of a leaf.
        const double cost = under + over + 0.1 * price_ * static_cast<double>(features_[f].names() - 1);
        const double own_gap = (high + 1.0) / (low + 1.0);
        const bool better = cost < least - kNothing;
        const bool as_good = cost <= least + kNothing && features_[f].names() == best.feature.names();
        if (better || (as_good && own_gap > gap * (1.0 + kNothing)))
          least = cost, gap = own_gap, best = {features_[f], between(low, high)};
      }
    }
    return best;
  }

  void add(const Node& node, DispatchTable& table) const {
    const std::size_t own = table.nodes.size();
    table.nodes.push_back({node.test, 0, 0, node.order, node.shapes});
    if (node.children.empty()) return;
    table.nodes[own].holds = table.nodes.size();
    add(node.children[0], table);
    table.nodes[own].fails = table.nodes.size();
    add(node.children[1], table);
  }

  std::vector<const Bindings*> shapes_;  // the measured ones, then those without times
  const std::size_t measured_, kernels_;
  const std::vector<DispatchFeature>& features_;
  const double price_;
  const std::size_t least_;
  std::vector<std::vector<double>> values_;  // by feature and shape
  std::vector<std::vector<double>> costs_;   // by shape and kernel
};

}  // namespace

double DispatchFeature::product(const Bindings& values) const {
  double all = 1.0;
  for (const std::string& factor : factors) all *= values.at(factor);
  return all;
}

double DispatchFeature::value(const Bindings& values) const {
  return divisor.empty() ? product(values) : product(values) / values.at(divisor);
}

bool DispatchTest::holds(const Bindings& values) const {
  return feature.product(values) <= (feature.divisor.empty() ? most : most * values.at(feature.divisor));
}

std::string DispatchTest::words(bool does_hold) const {
  return fmt::format("{} {} {:.6g}{}", fmt::join(feature.factors, " * "), does_hold ? "<=" : ">", most,
                     feature.divisor.empty() ? "" : " * " + feature.divisor);
}

std::size_t DispatchTable::leaf_of(const Bindings& values) const {
  std::size_t at = 0;
  while (!nodes.at(at).is_leaf()) {
    const DispatchNode& node = nodes[at];
    at = node.test.holds(values) ? node.holds : node.fails;
  }
  return at;
}

std::size_t DispatchTable::choice(const Bindings& values, const std::vector<bool>& serves) const {
  const std::vector<std::size_t>& order = nodes[leaf_of(values)].order;
  for (const std::size_t kernel : order)
    if (serves.at(kernel)) return kernel;
  return order.front();
}

std::vector<std::string> DispatchTable::conditions_of(std::size_t leaf) const {
  std::vector<std::string> words;
  for (std::size_t at = leaf; at != 0;)
    for (std::size_t parent = 0; parent < nodes.size(); ++parent) {
      const DispatchNode& node = nodes[parent];
      if (node.is_leaf() || (node.holds != at && node.fails != at)) continue;
      words.insert(words.begin(), node.test.words(node.holds == at));
      at = parent;
      break;
    }
  return words;
}

std::vector<std::size_t> DispatchTable::leaves() const {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < nodes.size(); ++at)
    if (nodes[at].is_leaf()) all.push_back(at);
  return all;
}

void to_json(nlohmann::json& j, const DispatchTable& table) {
  j = nlohmann::json::array();
  for (const DispatchNode& node : table.nodes)
    if (node.is_leaf())
      j.push_back({{"kernels", node.order}, {"shapes", node.shapes}});
    else {
      j.push_back({{"product_of", node.test.feature.factors},
                   {"at_most", node.test.most},
                   {"then", node.holds},
                   {"else", node.fails},
                   {"shapes", node.shapes}});
      if (!node.test.feature.divisor.empty()) j.back()["over"] = node.test.feature.divisor;
    }
}

void from_json(const nlohmann::json& j, DispatchTable& table) {
  table.nodes.clear();
  for (const nlohmann::json& each : j) {
    DispatchNode& node = table.nodes.emplace_back();
    each.at("shapes").get_to(node.shapes);
    if (each.contains("kernels")) {
      each.at("kernels").get_to(node.order);
      continue;
    }
    each.at("product_of").get_to(node.test.feature.factors);
    node.test.feature.divisor = each.value("over", "");
    each.at("at_most").get_to(node.test.most);
    each.at("then").get_to(node.holds);
    each.at("else").get_to(node.fails);
  }
  // Children follow their parents, so that every walk ends.
  for (std::size_t at = 0; at < table.nodes.size(); ++at) {
    const DispatchNode& node = table.nodes[at];
    const bool right = node.is_leaf()
                           ? !node.order.empty()
                           : node.holds > at && node.fails > at && node.holds < table.nodes.size() &&
                                 node.fails < table.nodes.size();
    if (!right) throw nlohmann::json::other_error::create(501, "no tree", &j);
  }
  if (table.nodes.empty()) throw nlohmann::json::other_error::create(501, "no tree", &j);
}

double TimedShape::best() const {
  double least = kNever;
  for (const double each : seconds) least = std::min(least, each);
  return least;
}

std::vector<bool> TimedShape::serves() const {
  std::vector<bool> all;
  for (const double each : seconds) all.push_back(std::isfinite(each));
  return all;
}

double regret(const DispatchTable& table, const TimedShape& shape) {
  const double chosen = shape.seconds.at(table.choice(shape.values, shape.serves()));
  return std::isfinite(chosen) ? chosen / shape.best() : 1.0;
}

std::vector<DispatchFeature> dispatch_features(const Task& task) {
  std::vector<std::string> dimensions;
  for (const Dimension& dimension : task.dimensions) dimensions.push_back(dimension.name);
  std::vector<DispatchFeature> all;
  for (const std::string& a : dimensions) all.push_back({{a}});
  for (const Parameter& parameter : task.parameters)
    if (!is_floating(parameter.type) || parameter.optional) all.push_back({{parameter.name}});
  for (std::size_t a = 0; a < dimensions.size(); ++a)
    for (std::size_t b = a + 1; b < dimensions.size(); ++b) {
      all.push_back({{dimensions[a], dimensions[b]}});
      all.push_back({{dimensions[a]}, dimensions[b]});
      for (std::size_t c = 0; c < dimensions.size(); ++c)
        if (c != a && c != b) all.push_back({{dimensions[a], dimensions[b]}, dimensions[c]});
    }
  if (task.rows.size() > 2) all.push_back({task.rows});
  return all;
}

DispatchTable fit_table(const std::vector<TimedShape>& shapes, std::size_t kernels,
                        const std::vector<DispatchFeature>& features, double price, std::size_t least,
                        const std::vector<Bindings>& further) {
  return Growth(shapes, kernels, features, price, least, further).table();
}

std::vector<std::size_t> useful_kernels(const std::vector<TimedShape>& shapes, std::size_t kernels,
                                        std::size_t most, double price) {
  std::vector<std::size_t> taken;
  if (kernels > 0) taken.push_back(0);
  const auto cost_with = [&](std::size_t added) {
    double sum = 0.0;
    for (const TimedShape& shape : shapes) {
      double least = shape.seconds.at(added);
      for (const std::size_t k : taken) least = std::min(least, shape.seconds.at(k));
      // A shape that none of them serves counts as ten times as slow: serving it is worth that much.
      if (const double best = shape.best(); std::isfinite(best))
        sum += std::isfinite(least) ? std::log(least / best) : std::log(10.0);
    }
    return sum;
  };
  while (taken.size() < std::min(most, kernels)) {
    std::size_t next = 0;
    for (std::size_t k = 1; k < kernels; ++k)
      if (std::ranges::find(taken, k) == taken.end() &&
          (next == 0 || cost_with(k) < cost_with(next) - kNothing))
        next = k;
    if (next == 0 || cost_with(next) >= cost_with(0) - std::max(price, kNothing)) break;
    taken.push_back(next);
  }
  std::ranges::sort(taken);
  return taken;
}

}  // namespace cultivar
