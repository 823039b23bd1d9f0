// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/rank_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace cultivar {
namespace {

constexpr std::int64_t most_pairs = 10'000'000;
constexpr int fewest_runs = 3, most_runs = 60, most_cheap_runs = 240;

long double log_arrangements(int runs, int other_runs) {
  return std::lgamma(static_cast<long double>(runs + other_runs + 1)) -
         std::lgamma(static_cast<long double>(runs + 1)) -
         std::lgamma(static_cast<long double>(other_runs + 1));
}

// Multiplies a power series, of which the given terms are wanted, by the Gaussian binomial coefficient
// [n + m choose n]: the product over i = 1..n of (1 - q^(m + i)) / (1 - q^i). Its coefficient of q^k counts
// the arrangements with k discordant pairs. Up to half of the degree the coefficients grow, so the
// differences lose no precision.
void multiply_by_gaussian(std::vector<long double>& series, int n, int m) {
  const std::size_t terms = series.size();
  for (int i = 1; i <= n; ++i) {
    const auto above = static_cast<std::size_t>(m + i), below = static_cast<std::size_t>(i);
    for (std::size_t k = terms; k-- > above;) series[k] -= series[k - above];
    for (std::size_t k = below; k < terms; ++k) series[k] += series[k - below];
  }
}

std::vector<double> cumulative_of(int n, int m, int batches, std::int64_t terms) {
  if (n > m) std::swap(n, m);
  std::vector<long double> series(static_cast<std::size_t>(terms), 0.0L);
  series.front() = 1.0L;
  for (int b = 0; b < batches; ++b) multiply_by_gaussian(series, n, m);
  const long double one = std::exp(-log_arrangements(n, m) * static_cast<long double>(batches));
  std::vector<double> cumulative;
  long double sum = 0.0L;
  for (const long double count : series) {
    sum += count;
    cumulative.push_back(static_cast<double>(std::min(1.0L, sum * one)));
  }
  return cumulative;
}

}  // namespace

Discordance::Discordance(int runs, int other_runs, int batches) {
  if (runs < 1 || other_runs < 1 || batches < 1)
    throw std::invalid_argument("a batch needs at least one run of each side");
  pairs_ = static_cast<std::int64_t>(runs) * other_runs * batches;
  if (pairs_ > most_pairs) throw std::invalid_argument("the batches are too large for an exact test");
  cumulative_ = cumulative_of(runs, other_runs, batches, pairs_ / 2 + 1);
}

double Discordance::at_most(std::int64_t discordant) const {
  if (discordant < 0) return 0.0;
  if (discordant >= pairs_) return 1.0;
  const auto known = static_cast<std::int64_t>(cumulative_.size());
  if (discordant < known) return cumulative_[static_cast<std::size_t>(discordant)];
  const std::int64_t mirrored = pairs_ - discordant - 1;  // the distribution is symmetric
  return 1.0 - (mirrored < 0 ? 0.0 : cumulative_[static_cast<std::size_t>(mirrored)]);
}

std::int64_t Discordance::critical(double alpha) const {
  if (alpha >= 0.5) throw std::invalid_argument("the level of a rank-sum test must be below a half");
  const auto above = std::upper_bound(cumulative_.begin(), cumulative_.end(), alpha);
  return (above - cumulative_.begin()) - 1;
}

BatchSize cheapest_batch(double alpha, double challenger_cost, double incumbent_cost, bool spare) {
  if (!(alpha > 0.0 && alpha < 0.5 && challenger_cost > 0.0 && incumbent_cost > 0.0))
    throw std::invalid_argument("a batch needs a level below a half and positive costs");
  const double cheap = std::min(challenger_cost, incumbent_cost);
  const double dear = std::max(challenger_cost, incumbent_cost);
  const bool challenger_is_dear = challenger_cost > incumbent_cost;
  const auto shows = [&](int few, int many) {
    if (std::exp(-static_cast<double>(log_arrangements(few, many))) > alpha) return false;
    if (!spare) return true;
    const std::int64_t discordant = challenger_is_dear ? many : few;  // one pair for each incumbent's run
    return cumulative_of(few, many, 1, discordant + 1).back() <= alpha;
  };
  int few = most_runs, many = most_cheap_runs;
  double least = std::numeric_limits<double>::infinity();
  for (int n = fewest_runs; n <= most_runs; ++n) {
    // More runs of the dear side never need more of the cheap one.
    int m = n;
    while (m <= most_cheap_runs && n * dear + m * cheap < least && !shows(n, m)) ++m;
    const double cost = n * dear + m * cheap;
    if (m > most_cheap_runs || cost >= least) continue;
    least = cost;
    few = n, many = m;
  }
  return challenger_is_dear ? BatchSize{few, many} : BatchSize{many, few};
}

}  // namespace cultivar
