#include "operators/tune/forest.hpp"

#include <algorithm>
#include <numeric>

namespace cultivar {

using Eigen::Index;

void Forest::fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, int trees, Random& random) {
  constexpr int kSmallest = 3;  // samples that are still split
  trees_.assign(static_cast<std::size_t>(trees), {});
  const auto n = static_cast<std::size_t>(x.rows());
  std::vector<int> sample(n);
  struct Task {
    std::size_t node, first, last;
  };
  std::vector<Task> tasks;
  for (auto& nodes : trees_) {
    std::iota(sample.begin(), sample.end(), 0);
    nodes.push_back({});
    tasks.push_back({0, 0, n});
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      const auto begin = sample.begin() + static_cast<std::ptrdiff_t>(task.first);
      const auto end = sample.begin() + static_cast<std::ptrdiff_t>(task.last);
      const auto size = static_cast<double>(task.last - task.first);
      double sum = 0, squares = 0;
      for (auto i = begin; i != end; ++i) {
        sum += y[*i];
        squares += y[*i] * y[*i];
      }
      Node node;
      node.mean = sum / size;
      node.variance = std::max(squares / size - node.mean * node.mean, 0.0);
      if (task.last - task.first >= kSmallest && node.variance > 1e-12) {
        double best = -1;
        for (Index f = 0; f < x.cols(); ++f) {
          double low = x(*begin, f), high = low;
          for (auto i = begin; i != end; ++i) {
            low = std::min(low, x(*i, f));
            high = std::max(high, x(*i, f));
          }
          if (high <= low) continue;
          const double threshold = low + (high - low) * random.uniform();
          double left_sum = 0, left = 0;
          for (auto i = begin; i != end; ++i)
            if (x(*i, f) <= threshold) {
              left_sum += y[*i];
              left += 1;
            }
          const double right_sum = sum - left_sum;
          const double gain = left_sum * left_sum / left + right_sum * right_sum / (size - left);
          if (node.feature < 0 || gain > best) {
            best = gain;
            node.feature = static_cast<int>(f);
            node.threshold = threshold;
          }
        }
      }
      if (node.feature >= 0) {
        const auto middle =
            std::partition(begin, end, [&](int i) { return x(i, node.feature) <= node.threshold; });
        const auto at = task.first + static_cast<std::size_t>(middle - begin);
        node.left = static_cast<int>(nodes.size());
        tasks.push_back({nodes.size(), task.first, at});
        tasks.push_back({nodes.size() + 1, at, task.last});
        nodes.resize(nodes.size() + 2);
      }
      nodes[task.node] = node;
    }
  }
}

void Forest::predict(const Eigen::MatrixXd& x, Eigen::VectorXd& mean, Eigen::VectorXd& variance) const {
  mean.setZero(x.rows());
  Eigen::VectorXd second = Eigen::VectorXd::Zero(x.rows());
  for (const auto& nodes : trees_)
    for (Index i = 0; i < x.rows(); ++i) {
      const Node* node = &nodes[0];
      while (node->feature >= 0)
        node =
            &nodes[static_cast<std::size_t>(node->left + (x(i, node->feature) <= node->threshold ? 0 : 1))];
      mean[i] += node->mean;
      second[i] += node->mean * node->mean + node->variance;
    }
  const auto trees = static_cast<double>(trees_.size());
  mean /= trees;
  variance = (second.array() / trees - mean.array().square()).max(1e-6);
}

}  // namespace cultivar
