// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "operators/tune/forest.hpp"
#include "operators/tune/gaussian_process.hpp"
#include "operators/tune/lessons.hpp"
#include "operators/tune/observations.hpp"
#include "operators/tune/space.hpp"

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

// A ranking lasts until the observations have grown by a share, but never so long that it runs out of
// candidates.
constexpr std::size_t kShare = 32;
constexpr std::size_t kLongest = 250;
constexpr std::size_t kSpare = 64;          // candidates, because some may be pending
constexpr std::size_t kRankingsPerFit = 8;  // of the hyperparameters
constexpr int kFitSteps = 15;

// Of so many proposals one may be of a point that the lessons avoid: what was learned too soon is found out.
constexpr int kDoubt = 16;
constexpr std::uint32_t kNone = 0xffffffff;

}  // namespace

class Tuner::Impl {
 public:
  Impl(Space space, std::uint64_t seed, TunerOptions options)
      : space_(std::move(space)),
        seed_(seed),
        options_(options),
        encoding_(space_.knobs),
        sampler_(space_),
        observations_(space_.knobs.size()),
        lessons_(space_),
        process_(encoding_.features()),
        ranking_lessons_(space_) {
    if (options_.initial <= 0) {
      int knobs = 0;
      for (const Knob& knob : space_.knobs) knobs += knob.values.size() > 1;
      options_.initial = std::clamp(2 * knobs, 6, 20);
    }
  }

  void observe(const Point& point, std::optional<double> cost, bool learn, const std::optional<Point>& twin) {
    require_on_grid(space_, point);
    const bool added = observations_.add(point, cost);
    if (options_.avoids_refusals && added) {
      twins_.push_back(twin ? observations_.number_of(*twin).value_or(kNone) : kNone);
      note(lessons_, observations_.size() - 1);
    }
    if (learn && added && static_cast<int>(observations_.size()) >= options_.initial && !ranks()) refine();
  }

  std::optional<Point> propose(std::span<const Point> pending) {
    for (const Point& point : pending) require_on_grid(space_, point);
    Random random(seed_ ^ (0x9e3779b97f4a7c15U * (observations_.size() + 1)) ^
                  (0xd6e8feb86659fd93U * pending.size()));
    random.next();
    PointSet taken(pending.begin(), pending.end());
    const Accept is_new = [&](const Point& p) { return !observations_.contains(p) && !taken.contains(p); };
    if (!options_.avoids_refusals || random.below(kDoubt) == 0) return propose(pending, random, is_new);
    for (const Point& point : pending) taken.insert(lessons_.kernels().canonical(point));
    const Accept is_news = [&](const Point& p) {
      return is_new(p) && !lessons_.avoids(p) && !taken.contains(lessons_.kernels().canonical(p));
    };
    if (auto point = propose(pending, random, is_news)) return point;
    return any_free(random, is_new);
  }

 private:
  using Accept = std::function<bool(const Point&)>;

  std::optional<Point> propose(std::span<const Point> pending, Random& random, const Accept& is_free) {
    if (static_cast<int>(observations_.size() + pending.size()) < options_.initial ||
        observations_.successes() < 2)
      return fill_space(pending, random, is_free);
    if (ranks()) {
      rank();
      if (const auto next = std::ranges::find_if(ranking_, is_free); next != ranking_.end()) return *next;
      return any_free(random, is_free);
    }
    const std::vector<Point> candidates = gather(random, is_free, Observations::kAll);
    if (candidates.empty()) return any_free(random, is_free);
    return candidates[best_candidate(candidates, pending, random)];
  }

  // Adds the observation with this number.
  void note(Lessons& lessons, std::size_t at) const {
    const std::uint32_t twin = twins_[at];
    lessons.add(observations_.point(at), !observations_.failed(at),
                twin == kNone ? std::nullopt : std::optional(observations_.point(twin)));
  }

  std::size_t cap() const { return static_cast<std::size_t>(options_.training_cap); }

  // Whether proposals are taken from rankings: the surrogates are trained with as much as they ever are.
  bool ranks() const { return options_.rankings && observations_.size() >= cap(); }

  static std::size_t length(std::size_t trained) {
    return std::clamp<std::size_t>(trained / kShare, 1, kLongest);
  }

  // The candidates for the present number of observations, best first. They depend only on the first trained_
  // observations, not on when they are ranked.
  void rank() {
    if (trained_ == 0) trained_ = fit_to_ = cap();
    for (; trained_ + length(trained_) <= observations_.size(); trained_ += length(trained_))
      if (++rankings_ % kRankingsPerFit == 0) fit_to_ = trained_ + length(trained_);
    if (ranked_with_ == trained_) return;
    ranked_with_ = trained_;
    ranking_.clear();
    const Training set = observations_.costs(cap(), trained_);
    if (set.points.size() < 2) return;
    if (fitted_to_ != fit_to_) {
      fitted_to_ = fit_to_;
      process_ = GaussianProcess(encoding_.features());
      const Training known = observations_.costs(cap(), fit_to_);
      if (known.points.size() >= 2) process_.fit(encoding_.rows(known.points), known.y, kFitSteps);
    }
    Random random(seed_ ^ (0x9e3779b97f4a7c15U * (trained_ + 1)));
    random.next();
    if (options_.avoids_refusals)
      for (; noted_ < trained_; ++noted_) note(ranking_lessons_, noted_);
    const std::vector<Point> candidates = gather(
        random,
        [&](const Point& p) {
          return !observations_.contains(p, trained_) &&
                 !(options_.avoids_refusals && ranking_lessons_.avoids(p));
        },
        trained_);
    if (candidates.empty()) return;
    const MatrixXd train = encoding_.rows(set.points), x = encoding_.rows(candidates);
    const VectorXd success = success_probability(x, random, trained_);
    const MatrixXd nothing(0, x.cols());
    const std::size_t count = std::min(candidates.size(), 2 * length(trained_) + kSpare);
    const auto forest = by_forest(train, set.y, x, nothing, success, random, count);
    const auto process = by_process(train, set.y, x, nothing, success, count);
    const bool stagnates = trained_ - observations_.ordered(trained_).front() > kStagnant;
    std::vector<bool> listed(candidates.size());
    const auto list = [&](std::size_t candidate) {
      if (!listed[candidate]) ranking_.push_back(candidates[candidate]);
      listed[candidate] = true;
    };
    for (std::size_t f = 0, p = 0; f < count;) {
      if (p < count) list(process[p++]);
      list(forest[f++]);
      if (stagnates && f < count) list(forest[f++]);
    }
  }

  // The Gaussian process and the forest alternate, so that each proposes points that the other misses. The
  // process finds a good region faster, the forest explores more, so it gets two turns of three when the best
  // cost has not improved for a while.
  bool asks_process(std::size_t turn) const {
    return turn % (observations_.since_best() < kStagnant ? 2U : 3U) == 0;
  }

  // Improves the process before its turn. The more a step costs, the fewer are taken; when the training set
  // is full and hardly changes, only two moves (the first step evaluates the current state).
  void refine() {
    if (!asks_process(observations_.size()) || observations_.successes() < 2) return;
    const Training set = observations_.costs(cap());
    const auto cubed = std::pow(static_cast<double>(set.points.size()), 3);
    const bool full = observations_.successes() > cap();
    const int steps = full ? 3 : std::clamp(static_cast<int>(2e7 / (1e6 + cubed / 3)), 1, 15);
    process_.fit(encoding_.rows(set.points), set.y, steps);
  }

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
      for (std::size_t at = 0; at < observations_.size(); ++at)
        nearest = std::min(nearest, encoding_.distance(*point, observations_.point(at)));
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
    for (int i = 0; i < kDraws && observations_.size() > 0; ++i) {
      const Point start = observations_.point(static_cast<std::size_t>(random.below(observations_.size())));
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
  // observed points replace these. `first`: of the observations.
  std::vector<Point> gather(Random& random, const Accept& is_free, std::size_t first) {
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
    std::vector<std::uint32_t> good = observations_.ordered(first);
    good.resize(std::min<std::size_t>(good.size(), 10));
    const std::size_t observed = std::min(first, observations_.size());
    std::vector<Point> near;
    for (std::size_t i = 0; i < good.size() && pool.size() < limit / 2; ++i) {
      near.clear();
      sampler_.neighbours(observations_.point(good[i]), near);
      for (const Point& point : near) add(point);
    }
    const std::size_t bred = std::min(limit, pool.size() + limit / 4);
    for (std::size_t i = 0; i < limit && pool.size() < bred; ++i) {
      const Point a = observations_.point(good[static_cast<std::size_t>(random.below(good.size()))]);
      const Point b = observations_.point(good[static_cast<std::size_t>(random.below(good.size()))]);
      const auto child = i % 2 == 0 && a != b ? sampler_.cross(a, b, random)
                                              : sampler_.mutate(a, 2 + random.below(2), random);
      if (child) add(*child);
    }
    for (int tries = kDraws; tries > 0 && pool.size() < limit;)
      if (const auto point = sampler_.draw(random, tries)) add(*point);
    for (std::size_t i = 0; i < limit && pool.size() < limit; ++i) {
      const Point start = observations_.point(static_cast<std::size_t>(random.below(observed)));
      if (const auto point = sampler_.mutate(start, 1 + random.below(3), random)) add(*point);
    }
    return pool;
  }

  // Expected improvement in log cost under the model whose turn it is, times the probability of success.
  // Pending points are assumed to have their expected cost (the kriging believer of Ginsbourger et al. 2010).
  std::size_t best_candidate(const std::vector<Point>& candidates, std::span<const Point> pending,
                             Random& random) {
    const Training set = observations_.costs(cap());
    const MatrixXd train = encoding_.rows(set.points);
    const MatrixXd x = encoding_.rows(candidates);
    const MatrixXd waiting = encoding_.rows(pending);
    if (!asks_process(observations_.size() + pending.size()))
      return by_forest(train, set.y, x, waiting, {}, random, 1).front();
    return by_process(train, set.y, x, waiting, success_probability(x, random, Observations::kAll), 1)
        .front();
  }

  // The `count` best candidates, best first. An empty `success` is computed when it is needed.
  std::vector<std::size_t> by_forest(MatrixXd train, VectorXd y, const MatrixXd& x, const MatrixXd& waiting,
                                     VectorXd success, Random& random, std::size_t count) const {
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
    if (success.size() == 0) success = success_probability(x, random, Observations::kAll);
    std::vector<Valued> valued;
    for (Index i = 0; i < x.rows(); ++i)
      valued.push_back({expected_improvement(best, mean[i], std::sqrt(variance[i])) * success[i],
                        static_cast<std::size_t>(i)});
    return best_of(std::move(valued), count);
  }

  std::vector<std::size_t> by_process(const MatrixXd& train, const VectorXd& y, const MatrixXd& x,
                                      const MatrixXd& waiting, const VectorXd& success, std::size_t count) {
    const double best = y.minCoeff();
    process_.condition(train, y);
    const VectorXd believed = process_.mean(process_.correlations(waiting));
    for (Index i = 0; i < waiting.rows(); ++i) process_.append(waiting.row(i), believed[i]);
    const MatrixXd correlations = process_.correlations(x);
    const VectorXd mean = process_.mean(correlations), bound = process_.variance_bound(correlations);
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
    std::vector<Valued> valued;
    double needed = -1;  // to be among the best
    for (std::size_t first = 0; first < promising.size() && -promising[first].first >= needed;
         first += kTogether) {
      const std::size_t together = std::min(kTogether, promising.size() - first);
      MatrixXd some(correlations.rows(), static_cast<Index>(together));
      for (std::size_t i = 0; i < together; ++i)
        some.col(static_cast<Index>(i)) = correlations.col(promising[first + i].second);
      const VectorXd variance = process_.variance(std::move(some));
      for (std::size_t i = 0; i < together; ++i) {
        const Index candidate = promising[first + i].second;
        valued.push_back(
            {value(candidate, variance[static_cast<Index>(i)]), static_cast<std::size_t>(candidate)});
      }
      if (valued.size() < count) continue;
      const auto last = valued.begin() + static_cast<std::ptrdiff_t>(count) - 1;
      std::nth_element(valued.begin(), last, valued.end());
      needed = last->value;
    }
    return best_of(std::move(valued), count);
  }

  struct Valued {
    double value;
    std::size_t candidate;
    friend bool operator<(const Valued& a, const Valued& b) {
      return a.value != b.value ? a.value > b.value : a.candidate < b.candidate;
    }
  };

  static std::vector<std::size_t> best_of(std::vector<Valued> valued, std::size_t count) {
    const auto end = valued.begin() + static_cast<std::ptrdiff_t>(std::min(count, valued.size()));
    std::partial_sort(valued.begin(), end, valued.end());
    std::vector<std::size_t> best;
    for (auto one = valued.begin(); one != end; ++one) best.push_back(one->candidate);
    return best;
  }

  VectorXd success_probability(const MatrixXd& x, Random& random, std::size_t first) const {
    const Training labels = observations_.outcomes(cap(), first);
    if (labels.y.size() == 0 || labels.y.minCoeff() > 0.0) return VectorXd::Ones(x.rows());
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
  Observations observations_;
  std::vector<std::uint32_t> twins_;  // by observation: the one whose kernel it gave again, or kNone
  Lessons lessons_;
  GaussianProcess process_;
  Lessons ranking_lessons_;  // of the first trained_ observations
  std::size_t noted_ = 0;    // how many it has
  std::vector<Point> ranking_;
  std::size_t trained_ = 0, ranked_with_ = 0;  // observations; 0: there is no ranking yet
  std::size_t fit_to_ = 0, fitted_to_ = 0;     // observations to which the process is, and was last, fitted
  std::size_t rankings_ = 0;
};

Tuner::Tuner(Space space, std::uint64_t seed, TunerOptions options)
    : impl_(std::make_unique<Impl>(std::move(space), seed, options)) {}
Tuner::~Tuner() = default;
Tuner::Tuner(Tuner&&) noexcept = default;
Tuner& Tuner::operator=(Tuner&&) noexcept = default;

void Tuner::observe(const Point& point, std::optional<double> cost, bool learn,
                    const std::optional<Point>& twin) {
  impl_->observe(point, cost, learn, twin);
}
std::optional<Point> Tuner::propose(std::span<const Point> pending) {
  return impl_->propose(pending);
}

}  // namespace cultivar
