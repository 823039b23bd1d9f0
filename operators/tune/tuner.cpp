#include "operators/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "operators/tune/encoding.hpp"
#include "operators/tune/gaussian_process.hpp"
#include "operators/tune/sampler.hpp"

namespace cultivar {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double normal_density(double z) { return 0.3989422804014327 * std::exp(-0.5 * z * z); }
double normal_mass(double z) { return 0.5 * std::erfc(-z * 0.7071067811865476); }

double length_prior(Index features) { return std::sqrt(2.0) + 0.5 * std::log(static_cast<double>(features)); }

}  // namespace

class Tuner::Impl {
 public:
  Impl(Space space, std::uint64_t seed, TunerOptions options)
      : space_(std::move(space)),
        seed_(seed),
        options_(options),
        encoding_(space_.knobs),
        sampler_(space_),
        cost_model_(encoding_.features(), options.rank, length_prior(encoding_.features()) - 1 + options.x1),
        failure_model_(encoding_.features(), options.rank, length_prior(encoding_.features()) - 1 + options.x1) {
    if (options_.initial <= 0) {
      int knobs = 0;
      for (const Knob& knob : space_.knobs) knobs += knob.values.size() > 1;
      options_.initial = std::clamp(2 * knobs, 6, 20);
    }
  }

  void observe(const Point& point, std::optional<double> cost) {
    require_on_grid(space_, point);
    if (cost && !(std::isfinite(*cost) && *cost > 0)) cost.reset();
    const auto [place, added] = index_.try_emplace(point, points_.size());
    if (added) {
      points_.push_back(point);
      log_cost_.push_back({});
    }
    log_cost_[place->second] = cost ? std::optional(std::log(*cost)) : std::nullopt;
    if (static_cast<int>(points_.size()) >= options_.initial) fit();
  }

  std::optional<Point> propose(std::span<const Point> pending) {
    for (const Point& point : pending) require_on_grid(space_, point);
    Random random(seed_ ^ (0x9e3779b97f4a7c15U * (points_.size() + 1)) ^ (0xd6e8feb86659fd93U * pending.size()));
    random.next();
    PointSet taken(pending.begin(), pending.end());
    const auto is_free = [&](const Point& p) { return !index_.contains(p) && !taken.contains(p); };
    if (static_cast<int>(points_.size() + pending.size()) < options_.initial || successes() < 2)
      return fill_space(pending, random, is_free);
    std::vector<Point> candidates = gather(random, is_free);
    if (candidates.empty()) return last_resort(random, is_free);
    return candidates[best_candidate(candidates, pending, random)];
  }

 private:
  struct Training {
    std::vector<Point> points;
    VectorXd y;
  };

  std::size_t successes() const {
    return static_cast<std::size_t>(
        std::count_if(log_cost_.begin(), log_cost_.end(), [](const auto& c) { return c.has_value(); }));
  }

  std::vector<std::size_t> by_cost() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (log_cost_[i]) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return *log_cost_[a] < *log_cost_[b]; });
    return order;
  }

  // The best two thirds of the cap, and evenly spaced others.
  Training cost_training() const {
    std::vector<std::size_t> order = by_cost();
    const auto cap = static_cast<std::size_t>(options_.training_cap);
    if (order.size() > cap) {
      const std::size_t keep = cap * 2 / 3, rest = cap - keep, left = order.size() - keep;
      for (std::size_t i = 0; i < rest; ++i) order[keep + i] = order[keep + i * left / rest];
      order.resize(cap);
    }
    Training set;
    set.y.resize(static_cast<Index>(order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      set.points.push_back(points_[order[i]]);
      set.y[static_cast<Index>(i)] = *log_cost_[order[i]];
    }
    if (options_.x2 > 0) {
      const double best = set.y.minCoeff();
      set.y = (set.y.array() - best + options_.x2).log();
    }
    const double mean = set.y.mean();
    const double sd = std::sqrt((set.y.array() - mean).square().mean());
    set.y = (set.y.array() - mean) / (sd > 1e-9 ? sd : 1.0);
    return set;
  }

  Training failure_training() const {
    std::vector<std::size_t> order;
    for (std::size_t i = points_.size(); i-- > 0 && static_cast<int>(order.size()) < options_.training_cap;)
      order.push_back(i);
    Training set;
    set.y.resize(static_cast<Index>(order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      set.points.push_back(points_[order[i]]);
      set.y[static_cast<Index>(i)] = log_cost_[order[i]] ? 1.0 : -1.0;
    }
    return set;
  }

  bool any_failure() const { return successes() < points_.size(); }

  void fit() {
    const auto steps = [](std::size_t n) {
      const double cost = 1e-3 + 1e-9 * std::pow(static_cast<double>(n), 3) / 3;
      return std::clamp(static_cast<int>(0.02 / cost), 1, 15);
    };
    if (successes() >= 2) {
      const Training set = cost_training();
      cost_model_.fit(encoding_.rows(set.points), set.y, steps(set.points.size()));
    }
    if (any_failure() && successes() > 0) {
      const Training set = failure_training();
      failure_model_.fit(encoding_.rows(set.points), set.y, steps(set.points.size()));
    }
  }

  template <typename Free>
  std::optional<Point> fill_space(std::span<const Point> pending, Random& random, const Free& is_free) const {
    std::optional<Point> best;
    double best_distance = -1;
    for (int i = 0; i < 30; ++i) {
      std::optional<Point> point = sampler_.draw(random, 2000);
      if (!point || !is_free(*point)) continue;
      double nearest = 1e300;
      for (const Point& other : points_) nearest = std::min(nearest, encoding_.distance(*point, other));
      for (const Point& other : pending) nearest = std::min(nearest, encoding_.distance(*point, other));
      if (nearest > best_distance) {
        best_distance = nearest;
        best = std::move(point);
      }
    }
    return best ? best : last_resort(random, is_free);
  }

  template <typename Free>
  std::optional<Point> last_resort(Random& random, const Free& is_free) const {
    if (sampler_.enumerated()) {
      std::vector<const Point*> left;
      for (const Point& point : sampler_.feasible_points())
        if (is_free(point)) left.push_back(&point);
      if (left.empty()) return std::nullopt;
      return *left[static_cast<std::size_t>(random.below(left.size()))];
    }
    return std::nullopt;
  }

  template <typename Free>
  std::vector<Point> gather(Random& random, const Free& is_free) const {
    const auto limit = static_cast<std::size_t>(options_.candidates);
    std::vector<Point> pool;
    if (sampler_.enumerated() && sampler_.feasible_points().size() <= limit) {
      for (const Point& point : sampler_.feasible_points())
        if (is_free(point)) pool.push_back(point);
      return pool;
    }
    PointSet seen;
    const auto add = [&](const Point& point) {
      if (pool.size() < limit && is_free(point) && seen.insert(point).second) pool.push_back(point);
    };
    std::vector<std::size_t> good = by_cost();
    if (good.size() > 10) good.resize(10);
    std::vector<Point> near;
    for (std::size_t i = 0; i < good.size() && pool.size() < limit / 2; ++i) {
      near.clear();
      sampler_.neighbours(points_[good[i]], near);
      for (const Point& point : near) add(point);
    }
    for (std::size_t i = 0; i < limit / 4 && !good.empty(); ++i) {
      const Point& a = points_[good[static_cast<std::size_t>(random.below(good.size()))]];
      const Point& b = points_[good[static_cast<std::size_t>(random.below(good.size()))]];
      if (const auto child = i % 2 == 0 && a != b ? sampler_.cross(a, b, random, 4)
                                                  : sampler_.mutate(a, 2 + random.below(2), random, 4))
        add(*child);
    }
    for (std::size_t i = 0; i < 2 * limit && pool.size() < limit; ++i)
      if (const auto point = sampler_.draw(random, 100)) add(*point);
    return pool;
  }

  std::size_t best_candidate(const std::vector<Point>& candidates, std::span<const Point> pending, Random&) {
    Training set = cost_training();
    cost_model_.condition(encoding_.rows(set.points), set.y);
    const double best = set.y.minCoeff();
    if (!pending.empty()) {
      const MatrixXd rows = encoding_.rows(pending);
      const VectorXd believed = cost_model_.mean(rows);
      for (Index i = 0; i < rows.rows(); ++i) cost_model_.append(rows.row(i), believed[i]);
    }
    const MatrixXd x = encoding_.rows(candidates);
    const auto prediction = cost_model_.predict(x);
    VectorXd success = VectorXd::Ones(x.rows());
    if (any_failure()) {
      const Training labels = failure_training();
      failure_model_.condition(encoding_.rows(labels.points), labels.y);
      const auto label = failure_model_.predict(x);
      for (Index i = 0; i < x.rows(); ++i)
        success[i] = normal_mass(label.mean[i] / std::sqrt(label.variance[i] + options_.x3));
    }
    Index chosen = 0;
    double highest = -1e300;
    for (Index i = 0; i < x.rows(); ++i) {
      const double sd = std::sqrt(prediction.variance[i]);
      const double z = (best - prediction.mean[i]) / sd;
      const double improvement = sd * (z * normal_mass(z) + normal_density(z));
      const double value = std::log(std::max(improvement, 1e-300)) + std::log(success[i] + 1e-6);
      if (value > highest) {
        highest = value;
        chosen = i;
      }
    }
    return static_cast<std::size_t>(chosen);
  }

  Space space_;
  std::uint64_t seed_;
  TunerOptions options_;
  Encoding encoding_;
  Sampler sampler_;
  GaussianProcess cost_model_, failure_model_;
  std::vector<Point> points_;
  std::vector<std::optional<double>> log_cost_;
  std::unordered_map<Point, std::size_t, PointHash> index_;
};

Tuner::Tuner(Space space, std::uint64_t seed, TunerOptions options)
    : impl_(std::make_unique<Impl>(std::move(space), seed, options)) {}
Tuner::~Tuner() = default;
Tuner::Tuner(Tuner&&) noexcept = default;
Tuner& Tuner::operator=(Tuner&&) noexcept = default;

void Tuner::observe(const Point& point, std::optional<double> cost) { impl_->observe(point, cost); }
std::optional<Point> Tuner::propose(std::span<const Point> pending) { return impl_->propose(pending); }

}  // namespace cultivar
