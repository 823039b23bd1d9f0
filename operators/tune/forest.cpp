// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/forest.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace cultivar {

using Eigen::Index;

namespace {

constexpr int kWide = 4;      // features processed together
constexpr int kSmallest = 3;  // smallest number of samples that is split

// One register on every x86-64 and arm64 processor; compilers emulate it elsewhere.
using Wide = float __attribute__((vector_size(kWide * sizeof(float))));

// Rows of features in single precision, in groups of kWide features: group, row, feature. The last group is
// padded with zeros, which are constant and so never split.
class Rows {
 public:
  explicit Rows(const Eigen::MatrixXd& x)
      : rows_(static_cast<std::size_t>(x.rows())),
        groups_(static_cast<std::size_t>((x.cols() + kWide - 1) / kWide)),
        values_(rows_ * groups_, Wide{}) {
    for (Index f = 0; f < x.cols(); ++f)
      for (Index i = 0; i < x.rows(); ++i)
        group(static_cast<std::size_t>(f / kWide))[i][f % kWide] = static_cast<float>(x(i, f));
  }
  std::size_t groups() const { return groups_; }
  Wide* group(std::size_t g) { return values_.data() + g * rows_; }
  const Wide* group(std::size_t g) const { return values_.data() + g * rows_; }

 private:
  std::size_t rows_, groups_;
  std::vector<Wide> values_;
};

struct Split {
  int feature = -1;  // -1: all features are constant
  float threshold = 0;
};

// The best split among one random threshold for each non-constant feature. The two passes over the samples
// have no branch on data, because a misprediction would cost more than everything else here.
Split best_split(const Rows& x, const std::vector<float>& y, const int* begin, const int* end, float sum,
                 Random& random) {
  Split split;
  float best = -1;
  const auto size = static_cast<float>(end - begin);
  for (std::size_t g = 0; g < x.groups(); ++g) {
    const Wide* rows = x.group(g);
    Wide low = rows[*begin], high = low;
    for (const int* i = begin; i != end; ++i) {
      const Wide row = rows[*i];
      low = row < low ? row : low;
      high = row > high ? row : high;
    }
    Wide threshold = low;
    bool varied = false;
    for (int f = 0; f < kWide; ++f)
      if (high[f] > low[f]) {
        varied = true;
        threshold[f] = low[f] + (high[f] - low[f]) * static_cast<float>(random.uniform());
        if (threshold[f] >= high[f]) threshold[f] = low[f];  // rounded up: both sides must have samples
      }
    if (!varied) continue;
    Wide left_sum{}, left{};
    const Wide zero{}, one = zero + 1.0F;
    for (const int* i = begin; i != end; ++i) {
      const auto below = rows[*i] <= threshold;
      left += below ? one : zero;
      left_sum += below ? zero + y[static_cast<std::size_t>(*i)] : zero;
    }
    for (int f = 0; f < kWide; ++f) {
      if (high[f] <= low[f]) continue;
      const float right_sum = sum - left_sum[f];
      const float gain = left_sum[f] * left_sum[f] / left[f] + right_sum * right_sum / (size - left[f]);
      if (split.feature >= 0 && gain <= best) continue;
      best = gain;
      split = {static_cast<int>(g) * kWide + f, threshold[f]};
    }
  }
  return split;
}

}  // namespace

std::int32_t Forest::add_leaf(double mean, double variance) {
  const auto at = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({std::numeric_limits<float>::infinity(), 0, at});
  mean_.push_back(mean);
  second_.push_back(mean * mean + variance);
  return at;
}

void Forest::fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, int trees, Random& random) {
  nodes_.clear();
  mean_.clear();
  second_.clear();
  trees_.clear();
  const Rows rows(x);
  const std::vector<float> targets(y.data(), y.data() + y.size());
  const auto n = static_cast<std::size_t>(x.rows());
  std::vector<int> sample(n), right(n);
  struct Task {
    std::int32_t node;  // created, but not yet filled in
    int depth;
    std::size_t first, last;
  };
  std::vector<Task> tasks;
  for (int t = 0; t < trees; ++t) {
    std::iota(sample.begin(), sample.end(), 0);
    Tree tree{add_leaf(0, 0), 0};
    tasks.push_back({tree.root, 0, 0, n});
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      tree.depth = std::max(tree.depth, task.depth);
      int* const begin = sample.data() + task.first;
      int* const end = sample.data() + task.last;
      double sum = 0, squares = 0;
      for (const int* i = begin; i != end; ++i) {
        sum += y[*i];
        squares += y[*i] * y[*i];
      }
      const auto size = static_cast<double>(end - begin);
      const double mean = sum / size, variance = std::max(squares / size - mean * mean, 0.0);
      mean_[static_cast<std::size_t>(task.node)] = mean;
      second_[static_cast<std::size_t>(task.node)] = mean * mean + variance;
      if (end - begin < kSmallest || variance <= 1e-12) continue;
      const Split split = best_split(rows, targets, begin, end, static_cast<float>(sum), random);
      if (split.feature < 0) continue;
      const Wide* const group = rows.group(static_cast<std::size_t>(split.feature / kWide));
      int* to_left = begin;
      int* to_right = right.data();
      for (const int* i = begin; i != end; ++i) {
        const int row = *i;
        const bool goes_left = group[row][split.feature % kWide] <= split.threshold;
        *to_left = row;
        *to_right = row;
        to_left += goes_left;
        to_right += !goes_left;
      }
      std::copy(right.data(), to_right, to_left);
      const auto middle = task.first + static_cast<std::size_t>(to_left - begin);
      const std::int32_t left = add_leaf(0, 0);
      add_leaf(0, 0);
      nodes_[static_cast<std::size_t>(task.node)] = {split.threshold, split.feature, left};
      tasks.push_back({left, task.depth + 1, task.first, middle});
      tasks.push_back({left + 1, task.depth + 1, middle, task.last});
    }
    trees_.push_back(tree);
  }
}

void Forest::predict(const Eigen::MatrixXd& x, Eigen::VectorXd& mean, Eigen::VectorXd& variance) const {
  constexpr Index kTogether =
      8;  // concurrent walks, because each step of a walk depends on the previous step
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = x.cast<float>();
  mean.setZero(x.rows());
  variance.setZero(x.rows());  // holds the mean of squares until the end
  for (const Tree& tree : trees_)
    for (Index first = 0; first < x.rows(); first += kTogether) {
      const Index count = std::min(kTogether, x.rows() - first);
      std::array<const float*, kTogether> row;
      std::array<std::int32_t, kTogether> at;
      at.fill(tree.root);
      for (Index i = 0; i < kTogether; ++i)
        row[static_cast<std::size_t>(i)] = &rows(first + std::min(i, count - 1), 0);
      for (int step = 0; step < tree.depth; ++step)
        for (std::size_t i = 0; i < kTogether; ++i) {
          const Node& node = nodes_[static_cast<std::size_t>(at[i])];
          at[i] = node.left + static_cast<std::int32_t>(row[i][node.feature] > node.threshold);
        }
      for (Index i = 0; i < count; ++i) {
        const auto leaf = static_cast<std::size_t>(at[static_cast<std::size_t>(i)]);
        mean[first + i] += mean_[leaf];
        variance[first + i] += second_[leaf];
      }
    }
  const auto trees = static_cast<double>(trees_.size());
  mean /= trees;
  variance = (variance.array() / trees - mean.array().square()).max(1e-6);
}

}  // namespace cultivar
