// SPDX-License-Identifier: Apache-2.0
// What duels say of two individuals that never met.
#include "population/archive.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "population/individual.hpp"

using namespace cultivar;

namespace {

struct Duels {
  Archive archive;

  Duels() {
    for (int i = 1; i <= 5; ++i) {
      Individual individual;
      individual.id = i;
      individual.source_id = std::string(1, static_cast<char>('a' + i));
      archive.add(individual);
      archive.judge(i, true, 1.0);
    }
  }
  void duel(IndividualId challenger, IndividualId incumbent, SpeedRatio all,
            std::vector<SpeedRatio> workloads = {}) {
    archive.settle(challenger, 1.0, {incumbent, Verdict::better, all, std::move(workloads)});
  }
  std::optional<SpeedByDuels> speed(IndividualId first, IndividualId second) const {
    return cultivar::speed_by_duels(archive, first, second);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(speed_by_duels, Duels)

BOOST_AUTO_TEST_CASE(a_duel_of_the_two_says_it_both_ways) {
  duel(2, 1, {0.3, 0.2, 0.5}, {{0.4, 0.1, 0.6}});
  BOOST_TEST((speed(2, 1)->all == SpeedRatio{0.3, 0.2, 0.5}));
  BOOST_TEST((speed(1, 2)->all == SpeedRatio{-0.3, -0.5, -0.2}));
  BOOST_TEST((speed(1, 2)->workloads == std::vector<SpeedRatio>{{-0.4, -0.6, -0.1}}));
  BOOST_TEST(!speed(1, 3).has_value());
  BOOST_TEST(!speed(2, 2).has_value());
}

BOOST_AUTO_TEST_CASE(duels_with_third_ones_add_up_from_where_they_met_with_the_errors_of_both) {
  duel(2, 1, {9.0, -50.0, 50.0}, {{9.0, -50.0, 50.0}});  // both descend from it: it says nothing of the two
  duel(3, 2, {0.5, 0.2, 0.9}, {{0.5, 0.2, 0.9}});
  duel(4, 2, {0.1, -0.3, 0.4}, {{0.1, -0.3, 0.4}});
  const auto both = speed(3, 4);
  BOOST_REQUIRE(both);
  for (const SpeedRatio& ratio : {both->all, both->workloads.at(0)}) {
    BOOST_TEST(std::fabs(ratio.log_ratio - 0.4) < 1e-12);
    BOOST_TEST(std::fabs(ratio.lower - (0.4 - std::hypot(0.3, 0.3))) < 1e-12);
    BOOST_TEST(std::fabs(ratio.upper - (0.4 + std::hypot(0.4, 0.4))) < 1e-12);
  }
  duel(5, 3, {0.1, 0.0, 0.2});  // says nothing of the workloads
  BOOST_TEST(speed(5, 4)->workloads.empty());
  const SpeedRatio unbounded{0.2};
  duel(5, 3, unbounded, {unbounded});
  BOOST_TEST(std::isinf(speed(5, 4)->workloads.at(0).lower));
}

BOOST_AUTO_TEST_CASE(a_record_whose_duels_form_a_circle_ends) {
  duel(2, 1, {0.3, 0.2, 0.5});
  duel(1, 2, {0.3, 0.2, 0.5});
  BOOST_TEST(!speed(1, 3).has_value());
}

BOOST_AUTO_TEST_CASE(a_ratio_of_speeds_is_written_one_way) {
  BOOST_TEST(ratio_words(1.4951) == "1.50x");
  BOOST_TEST(ratio_words(1.0904) == "1.090x");
  BOOST_TEST(ratio_words(0.9005) == "0.900x");
  BOOST_TEST(ratio_words(0.5) == "0.50x");
  BOOST_TEST(ratio_words(12.34) == "12.3x");
  BOOST_TEST(ratio_words(1234.5) == "1234x");
  BOOST_TEST(ratio_words(std::numeric_limits<double>::infinity()) == "-");
}

BOOST_AUTO_TEST_SUITE_END()
