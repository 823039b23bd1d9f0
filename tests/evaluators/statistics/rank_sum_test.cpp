// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/rank_sum.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <vector>

using namespace cultivar;

namespace {

// The number of arrangements of n and m runs by their discordant pairs, by adding one run after another.
std::vector<double> counted(int n, int m) {
  std::vector<std::vector<double>> by_first(static_cast<std::size_t>(n) + 1);
  for (auto& row : by_first) row.assign(static_cast<std::size_t>(n * m) + 1, 0.0);
  // by_first[i][k] after j runs of the other side: arrangements of i and j runs with k discordant pairs.
  for (int i = 0; i <= n; ++i) by_first[static_cast<std::size_t>(i)][0] = 1.0;
  for (int j = 1; j <= m; ++j)
    for (int i = 1; i <= n; ++i) {
      auto& row = by_first[static_cast<std::size_t>(i)];
      const auto& fewer = by_first[static_cast<std::size_t>(i) - 1];  // the last run is of the first side
      std::vector<double> next(row.size(), 0.0);
      for (std::size_t k = 0; k < row.size(); ++k) {
        // The last run is of the other side: it is discordant with all i runs of the first.
        if (k >= static_cast<std::size_t>(i)) next[k] += row[k - static_cast<std::size_t>(i)];
        next[k] += fewer[k];
      }
      row = next;
    }
  return by_first[static_cast<std::size_t>(n)];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rank_sum)

BOOST_AUTO_TEST_CASE(the_distribution_agrees_with_counting_every_arrangement) {
  for (const auto& [n, m] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 3}, {4, 4}, {5, 40}, {11, 11}, {24, 17}}) {
    const std::vector<double> counts = counted(n, m);
    double all = 0.0, sum = 0.0;
    for (const double count : counts) all += count;
    const Discordance exact(n, m), mirrored(m, n);
    for (std::size_t k = 0; k < counts.size(); ++k) {
      sum += counts[k];
      BOOST_TEST(exact.at_most(static_cast<std::int64_t>(k)) == sum / all,
                 boost::test_tools::tolerance(1e-9));
      BOOST_TEST(mirrored.at_most(static_cast<std::int64_t>(k)) ==
                 exact.at_most(static_cast<std::int64_t>(k)));
    }
  }
}

BOOST_AUTO_TEST_CASE(batches_are_pooled_by_convolution) {
  const std::vector<double> one = counted(6, 5);
  std::vector<double> pooled{1.0};
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<double> next(pooled.size() + one.size() - 1, 0.0);
    for (std::size_t i = 0; i < pooled.size(); ++i)
      for (std::size_t j = 0; j < one.size(); ++j) next[i + j] += pooled[i] * one[j];
    pooled = next;
  }
  double all = 0.0, sum = 0.0;
  for (const double count : pooled) all += count;
  const Discordance exact(6, 5, 3);
  for (std::size_t k = 0; k < pooled.size(); ++k) {
    sum += pooled[k];
    BOOST_TEST(exact.at_most(static_cast<std::int64_t>(k)) == sum / all, boost::test_tools::tolerance(1e-9));
  }
  BOOST_TEST(exact.at_most(-1) == 0.0);
  BOOST_TEST(exact.at_most(exact.pairs()) == 1.0);
}

BOOST_AUTO_TEST_CASE(the_tails_of_large_batches_are_as_precise_as_their_normal_approximation_says) {
  const Discordance exact(60, 240, 4);
  const double pairs = 60.0 * 240.0, deviation = std::sqrt(4 * pairs * 301.0 / 12.0);
  for (const double z : {-3.0, -2.0, -1.0, 0.0}) {
    const auto k = static_cast<std::int64_t>(2.0 * pairs + z * deviation);
    BOOST_TEST(exact.at_most(k) == 0.5 * std::erfc(-z / std::sqrt(2.0)), boost::test_tools::tolerance(0.02));
  }
  double before = 0.0;
  for (std::int64_t k = 0; k < exact.pairs(); k += 7) {
    BOOST_TEST(exact.at_most(k) >= before);
    before = exact.at_most(k);
  }
}

BOOST_AUTO_TEST_CASE(complete_separation_has_one_arrangement_of_all) {
  BOOST_TEST(Discordance(5, 40).at_most(0) == 1.0 / 1221759.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(Discordance(11, 11).at_most(0) == 1.0 / 705432.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(Discordance(11, 11).critical(1e-7) == -1);
  BOOST_TEST(Discordance(11, 11).critical(1.5e-6) == 0);
  const Discordance some(9, 12);
  const std::int64_t critical = some.critical(0.01);
  BOOST_TEST(some.at_most(critical) <= 0.01);
  BOOST_TEST(some.at_most(critical + 1) > 0.01);
}

BOOST_AUTO_TEST_CASE(the_cheapest_batch_runs_the_dear_side_less_often) {
  for (const double alpha : {1e-2, 1e-3, 1e-6, 1e-8})
    for (const double dear : {1.0, 3.0, 10.0, 100.0}) {
      const BatchSize size = cheapest_batch(alpha, 1.0, dear, false);
      BOOST_TEST(Discordance(size.challenger, size.incumbent).at_most(0) <= alpha);
      BOOST_TEST(size.incumbent <= size.challenger);
      const BatchSize turned = cheapest_batch(alpha, dear, 1.0, false);
      BOOST_TEST((dear == 1.0 || turned == BatchSize{size.incumbent, size.challenger}));
      const BatchSize spare = cheapest_batch(alpha, 1.0, dear, true);
      BOOST_TEST(Discordance(spare.challenger, spare.incumbent).at_most(spare.incumbent) <= alpha);
      const double cost = size.challenger + dear * size.incumbent;
      for (int n = 3; n <= 30; ++n)
        for (int m = 3; m <= 120; ++m)
          if (m + dear * n < cost - 1e-9) BOOST_TEST(Discordance(m, n).at_most(0) > alpha);
    }
}

BOOST_AUTO_TEST_CASE(sizes_and_levels_that_make_no_sense_are_refused) {
  BOOST_CHECK_THROW(Discordance(0, 3), std::invalid_argument);
  BOOST_CHECK_THROW(Discordance(10000, 10000), std::invalid_argument);
  BOOST_CHECK_THROW((void)Discordance(3, 3).critical(0.7), std::invalid_argument);
  BOOST_CHECK_THROW((void)cheapest_batch(0.01, 0.0, 1.0, false), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
