#include "operators/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <unordered_set>

#include "operators/tune/encoding.hpp"
#include "operators/tune/forest.hpp"
#include "operators/tune/gaussian_process.hpp"
#include "operators/tune/sampler.hpp"

namespace cultivar {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double normal_density(double z) {
  return 0.3989422804014327 * std::exp(-0.5 * z * z);
}
double normal_mass(double z) {
  return 0.5 * std::erfc(-z * 0.7071067811865476);
}

double expected_improvement(double best, double mean, double sd) {
  const double z = (best - mean) / sd;
  return sd * (z * normal_mass(z) + normal_density(z));
}

constexpr std::size_t kStagnant = 30;  // observations without a new best cost

constexpr int kDraws = 10'000;         // limit on predicate calls for random points of one proposal
constexpr int kLastDraws = 1'000'000;  // the limit if there is nothing else to propose

}  // namespace

class Tuner::Impl {
 public:
  Impl(Space space, std::uint64_t seed, TunerOptions options)
      : space_(std::move(space)),
        seed_(seed),
        options_(options),
        encoding_(space_.knobs),
        sampler_(space_),
        process_(encoding_.features()) {
    if (options_.initial <= 0) {
      int knobs = 0;
      for (const Knob& knob : space_.knobs) knobs += knob.values.size() > 1;
      options_.initial = std::clamp(2 * knobs, 6, 20);
    }
  }

  void observe(const Point& point, std::optional<double> cost, bool learn) {
    require_on_grid(space_, point);
    const auto place = index_.find(point);
    const bool added = place == index_.end();
    const std::size_t at = added ? points_.size() : *place;
    if (added) {
      points_.push_back(point);
      log_cost_.push_back({});
      index_.insert(at);
    }
    const double value = cost.value_or(-1);
    if (log_cost_[at]) order_.erase(place_in_order(at));
    log_cost_[at] = std::isfinite(value) && value > 0 ? std::optional(std::log(value)) : std::nullopt;
    if (log_cost_[at]) order_.insert(place_in_order(at), at);
    if (log_cost_[at] && value < best_) {
      best_ = value;
      best_since_ = points_.size();
    }
    if (learn && added && static_cast<int>(points_.size()) >= options_.initial) refine();
  }

  std::optional<Point> propose(std::span<const Point> pending) {
    for (const Point& point : pending) require_on_grid(space_, point);
    Random random(seed_ ^ (0x9e3779b97f4a7c15U * (points_.size() + 1)) ^
                  (0xd6e8feb86659fd93U * pending.size()));
    random.next();
    PointSet taken(pending.begin(), pending.end());
    const Accept is_free = [&](const Point& p) { return !index_.contains(p) && !taken.contains(p); };
    if (static_cast<int>(points_.size() + pending.size()) < options_.initial || successes() < 2)
      return fill_space(pending, random, is_free);
    std::vector<Point> candidates = gather(random, is_free);
    if (candidates.empty()) return any_free(random, is_free);
    return candidates[best_candidate(candidates, pending, random)];
  }

 private:
  struct Training {
    std::vector<Point> points;
    VectorXd y;
  };

  // Observations are indexed by their points, which are stored once.
  struct HashAt {
    using is_transparent = void;
    const std::vector<Point>* points;
    std::size_t operator()(const Point& point) const noexcept { return PointHash{}(point); }
    std::size_t operator()(std::size_t at) const noexcept { return PointHash{}((*points)[at]); }
  };
  struct EqualAt {
    using is_transparent = void;
    const std::vector<Point>* points;
    bool operator()(std::size_t a, std::size_t b) const { return a == b; }
    bool operator()(const Point& a, std::size_t b) const { return a == (*points)[b]; }
    bool operator()(std::size_t a, const Point& b) const { return (*points)[a] == b; }
  };

  std::size_t successes() const { return order_.size(); }

  // The position of a successful observation in order_, or where it would be inserted.
  std::vector<std::size_t>::iterator place_in_order(std::size_t at) {
    return std::lower_bound(order_.begin(), order_.end(), at, [&](std::size_t a, std::size_t b) {
      return *log_cost_[a] != *log_cost_[b] ? *log_cost_[a] < *log_cost_[b] : a < b;
    });
  }

  // Two thirds of the cap are the best observations; the rest are evenly spaced others.
  Training cost_training() const {
    const auto cap = static_cast<std::size_t>(options_.training_cap);
    std::vector<std::size_t> order;
    if (order_.size() <= cap) {
      order = order_;
    } else {
      const std::size_t keep = cap * 2 / 3, rest = cap - keep, left = order_.size() - keep;
      order.assign(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(keep));
      for (std::size_t i = 0; i < rest; ++i) order.push_back(order_[keep + i * left / rest]);
    }
    Training set;
    set.y.resize(static_cast<Index>(order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      set.points.push_back(points_[order[i]]);
      set.y[static_cast<Index>(i)] = *log_cost_[order[i]];
    }
    const double mean = set.y.mean();
    const double sd = std::sqrt((set.y.array() - mean).square().mean());
    set.y = (set.y.array() - mean) / (sd > 1e-9 ? sd : 1.0);
    return set;
  }

  Training outcome_training() const {
    std::vector<std::size_t> order;
    for (std::size_t i = points_.size(); i-- > 0 && static_cast<int>(order.size()) < options_.training_cap;)
      order.push_back(i);
    Training set;
    set.y.resize(static_cast<Index>(order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      set.points.push_back(points_[order[i]]);
      set.y[static_cast<Index>(i)] = log_cost_[order[i]] ? 1.0 : 0.0;
    }
    return set;
  }

  // The Gaussian process and the forest alternate, so that each proposes points that the other misses. The
  // process finds a good region faster, the forest explores more, so it gets two turns of three when the best
  // cost has not improved for a while.
  bool asks_process(std::size_t turn) const {
    return turn % (points_.size() - best_since_ < kStagnant ? 2U : 3U) == 0;
  }

  // Improves the process before its turn. The more a step costs, the fewer are taken; when the training set
  // is full and hardly changes, only two moves (the first step evaluates the current state).
  void refine() {
    if (!asks_process(points_.size()) || successes() < 2) return;
    const Training set = cost_training();
    const auto cubed = std::pow(static_cast<double>(set.points.size()), 3);
    const bool full = successes() > static_cast<std::size_t>(options_.training_cap);
    const int steps = full ? 3 : std::clamp(static_cast<int>(2e7 / (1e6 + cubed / 3)), 1, 15);
    process_.fit(encoding_.rows(set.points), set.y, steps);
  }

  using Accept = std::function<bool(const Point&)>;

  // The farthest of a few random points: spread out, but without the bias to corners of a full maximin
  // design.
  std::optional<Point> fill_space(std::span<const Point> pending, Random& random,
                                  const Accept& is_free) const {
    std::optional<Point> best;
    double best_distance = -1;
    int tries = kDraws;
    for (int i = 0; i < 30; ++i) {
      std::optional<Point> point = sampler_.draw(random, tries);
      if (!point) break;
      if (!is_free(*point)) continue;
      double nearest = std::numeric_limits<double>::infinity();
      for (const Point& other : points_) nearest = std::min(nearest, encoding_.distance(*point, other));
      for (const Point& other : pending) nearest = std::min(nearest, encoding_.distance(*point, other));
      if (nearest > best_distance) {
        best_distance = nearest;
        best = std::move(point);
      }
    }
    return best ? best : any_free(random, is_free);
  }

  // Any remaining point: first at random, then near the observed points, then by a scan, then by a long
  // random search.
  std::optional<Point> any_free(Random& random, const Accept& is_free) const {
    if (sampler_.enumerated()) {
      std::vector<const Point*> left;
      for (const Point& point : sampler_.feasible_points())
        if (is_free(point)) left.push_back(&point);
      if (left.empty()) return std::nullopt;
      return *left[static_cast<std::size_t>(random.below(left.size()))];
    }
    for (int tries = kDraws; tries > 0;)
      if (auto point = sampler_.draw(random, tries); point && is_free(*point)) return point;
    for (int i = 0; i < kDraws && !points_.empty(); ++i) {
      const Point& start = points_[static_cast<std::size_t>(random.below(points_.size()))];
      if (auto point = sampler_.mutate(start, 1 + random.below(3), random); point && is_free(*point))
        return point;
    }
    if (auto point = sampler_.scan(is_free)) return point;
    for (int tries = kLastDraws; tries > 0;)
      if (auto point = sampler_.draw(random, tries); point && is_free(*point)) return point;
    return std::nullopt;
  }

  // In a small space, all free points. Otherwise at most half neighbors of the best points, a quarter
  // crossovers and mutations of them, and random points; if feasible points are rare, random walks from
  // observed points replace these.
  std::vector<Point> gather(Random& random, const Accept& is_free) const {
    const auto limit = static_cast<std::size_t>(options_.candidates);
    std::vector<Point> pool;
    if (sampler_.enumerated() && sampler_.feasible_points().size() <= limit) {
      std::copy_if(sampler_.feasible_points().begin(), sampler_.feasible_points().end(),
                   std::back_inserter(pool), is_free);
      return pool;
    }
    PointSet seen;
    const auto add = [&](const Point& point) {
      if (pool.size() < limit && is_free(point) && seen.insert(point).second) pool.push_back(point);
    };
    const std::vector<std::size_t> good(
        order_.begin(),
        order_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(order_.size(), 10)));
    std::vector<Point> near;
    for (std::size_t i = 0; i < good.size() && pool.size() < limit / 2; ++i) {
      near.clear();
      sampler_.neighbours(points_[good[i]], near);
      for (const Point& point : near) add(point);
    }
    const std::size_t bred = std::min(limit, pool.size() + limit / 4);
    for (std::size_t i = 0; i < limit && pool.size() < bred; ++i) {
      const Point& a = points_[good[static_cast<std::size_t>(random.below(good.size()))]];
      const Point& b = points_[good[static_cast<std::size_t>(random.below(good.size()))]];
      const auto child = i % 2 == 0 && a != b ? sampler_.cross(a, b, random)
                                              : sampler_.mutate(a, 2 + random.below(2), random);
      if (child) add(*child);
    }
    for (int tries = kDraws; tries > 0 && pool.size() < limit;)
      if (const auto point = sampler_.draw(random, tries)) add(*point);
    for (std::size_t i = 0; i < limit && pool.size() < limit; ++i) {
      const Point& start = points_[static_cast<std::size_t>(random.below(points_.size()))];
      if (const auto point = sampler_.mutate(start, 1 + random.below(3), random)) add(*point);
    }
    return pool;
  }

  // Expected improvement in log cost under the model whose turn it is, times the probability of success.
  // Pending points are assumed to have their expected cost (the kriging believer of Ginsbourger et al. 2010).
  std::size_t best_candidate(const std::vector<Point>& candidates, std::span<const Point> pending,
                             Random& random) {
    const Training set = cost_training();
    const MatrixXd train = encoding_.rows(set.points);
    const MatrixXd x = encoding_.rows(candidates);
    const MatrixXd waiting = encoding_.rows(pending);
    return asks_process(points_.size() + pending.size()) ? by_process(train, set.y, x, waiting, random)
                                                         : by_forest(train, set.y, x, waiting, random);
  }

  std::size_t by_forest(MatrixXd train, VectorXd y, const MatrixXd& x, const MatrixXd& waiting,
                        Random& random) const {
    const double best = y.minCoeff();
    Forest forest;
    VectorXd mean, variance;
    forest.fit(train, y, options_.trees, random);
    if (waiting.rows() > 0) {
      forest.predict(waiting, mean, variance);
      train.conservativeResize(train.rows() + waiting.rows(), Eigen::NoChange);
      train.bottomRows(waiting.rows()) = waiting;
      y.conservativeResize(train.rows());
      y.tail(waiting.rows()) = mean;
      forest.fit(train, y, options_.trees, random);
    }
    forest.predict(x, mean, variance);
    const VectorXd success = success_probability(x, random);
    VectorXd value(x.rows());
    for (Index i = 0; i < x.rows(); ++i)
      value[i] = expected_improvement(best, mean[i], std::sqrt(variance[i])) * success[i];
    Index chosen = 0;
    value.maxCoeff(&chosen);
    return static_cast<std::size_t>(chosen);
  }

  std::size_t by_process(const MatrixXd& train, const VectorXd& y, const MatrixXd& x, const MatrixXd& waiting,
                         Random& random) {
    const double best = y.minCoeff();
    process_.condition(train, y);
    const VectorXd believed = process_.mean(process_.correlations(waiting));
    for (Index i = 0; i < waiting.rows(); ++i) process_.append(waiting.row(i), believed[i]);
    const MatrixXd correlations = process_.correlations(x);
    const VectorXd mean = process_.mean(correlations), bound = process_.variance_bound(correlations);
    const VectorXd success = success_probability(x, random);
    const auto value = [&](Index i, double variance) {
      return expected_improvement(best, mean[i], std::sqrt(variance)) * success[i];
    };
    // A variance costs a triangular solve. Improvement grows with the variance, so points are evaluated in
    // the order of their upper bounds until no remaining bound can win; the result equals that of evaluating
    // all points.
    std::vector<std::pair<double, Index>> promising;
    for (Index i = 0; i < x.rows(); ++i) promising.emplace_back(-value(i, bound[i]), i);
    std::sort(promising.begin(), promising.end());
    constexpr std::size_t kTogether = 48;
    Index chosen = promising.front().second;
    double highest = -1;
    for (std::size_t first = 0; first < promising.size() && -promising[first].first >= highest;
         first += kTogether) {
      const std::size_t count = std::min(kTogether, promising.size() - first);
      MatrixXd some(correlations.rows(), static_cast<Index>(count));
      for (std::size_t i = 0; i < count; ++i)
        some.col(static_cast<Index>(i)) = correlations.col(promising[first + i].second);
      const VectorXd variance = process_.variance(std::move(some));
      for (std::size_t i = 0; i < count; ++i) {
        const Index candidate = promising[first + i].second;
        const double improvement = value(candidate, variance[static_cast<Index>(i)]);
        if (improvement > highest || (improvement == highest && candidate < chosen)) {
          highest = improvement;
          chosen = candidate;
        }
      }
    }
    return static_cast<std::size_t>(chosen);
  }

  VectorXd success_probability(const MatrixXd& x, Random& random) const {
    if (successes() == points_.size()) return VectorXd::Ones(x.rows());
    const Training labels = outcome_training();
    Forest forest;
    forest.fit(encoding_.rows(labels.points), labels.y, options_.trees, random);
    VectorXd mean, variance;
    forest.predict(x, mean, variance);
    return mean.cwiseMax(0.02);
  }

  Space space_;
  std::uint64_t seed_;
  TunerOptions options_;
  Encoding encoding_;
  Sampler sampler_;
  GaussianProcess process_;
  std::vector<Point> points_;
  std::vector<std::optional<double>> log_cost_;
  std::vector<std::size_t> order_;  // successful observations, lowest cost first, oldest first among equals
  std::unordered_set<std::size_t, HashAt, EqualAt> index_{0, HashAt{&points_}, EqualAt{&points_}};
  double best_ = std::numeric_limits<double>::infinity();
  std::size_t best_since_ = 0;  // number of observations when best_ was found
};

Tuner::Tuner(Space space, std::uint64_t seed, TunerOptions options)
    : impl_(std::make_unique<Impl>(std::move(space), seed, options)) {}
Tuner::~Tuner() = default;
Tuner::Tuner(Tuner&&) noexcept = default;
Tuner& Tuner::operator=(Tuner&&) noexcept = default;

void Tuner::observe(const Point& point, std::optional<double> cost, bool learn) {
  impl_->observe(point, cost, learn);
}
std::optional<Point> Tuner::propose(std::span<const Point> pending) {
  return impl_->propose(pending);
}

}  // namespace cultivar
