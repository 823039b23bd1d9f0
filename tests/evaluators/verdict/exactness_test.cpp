// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/exactness.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "evaluators/verdict/evaluation.hpp"

using namespace cultivar;

namespace {

std::vector<Exactness> of(double ordinary, double peaked) {
  return {{"ordinary", {ordinary, ordinary}, ordinary}, {"peaked", {peaked, peaked}, peaked}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exactness)

BOOST_AUTO_TEST_CASE(growth_counts_beside_the_best_before_and_the_permitted_error) {
  std::vector<Exactness> before = of(1.0, 1.5);
  set_bars(before, {});
  BOOST_TEST(!error_growth(of(1.05, 1.6), before, 1.1));
  BOOST_TEST(!error_growth(of(0.2, 1.2), before, 1.1));
  const auto grown = error_growth(of(1.0, 1.7), before, 1.1);
  BOOST_REQUIRE(grown);
  BOOST_TEST(grown->distribution == "peaked");
  BOOST_TEST(grown->limit == 1.65, boost::test_tools::tolerance(1e-12));
  // A best that is more exact than required may be followed by one that is as exact as required.
  std::vector<Exactness> exact = of(0.3, 0.3);
  set_bars(exact, {});
  BOOST_TEST(!error_growth(of(1.0, 1.09), exact, 1.1));
  BOOST_TEST(error_growth(of(1.0, 1.11), exact, 1.1).has_value());
}

BOOST_AUTO_TEST_CASE(small_growths_do_not_add_up) {
  std::vector<Exactness> best = of(1.0, 1.0);
  set_bars(best, {});
  std::vector<Exactness> next = of(1.09, 1.0);
  BOOST_TEST(!error_growth(next, best, 1.1));
  set_bars(next, best);
  BOOST_TEST(next[0].bar == 1.0);
  BOOST_TEST(error_growth(of(1.18, 1.0), next, 1.1).has_value());
}

BOOST_AUTO_TEST_CASE(what_is_unknown_refuses_nothing) {
  BOOST_TEST(!error_growth(of(9.0, 9.0), {}, 1.1));
  BOOST_TEST(!error_growth({}, of(1.0, 1.0), 1.1));
}

BOOST_AUTO_TEST_CASE(it_is_part_of_an_evaluation_and_absent_in_older_ones) {
  Evaluation e;
  nlohmann::json j = e;
  BOOST_TEST(!j.contains("exactness"));
  BOOST_TEST(j.get<Evaluation>().exactness.empty());
  e.exactness = of(1.0, 2.0);
  e.exactness[1].contenders["torch"] = {1.5, 3.0};
  set_bars(e.exactness, {});
  j = e;
  const Evaluation read = nlohmann::json::parse(j.dump()).get<Evaluation>();
  BOOST_REQUIRE(read.exactness.size() == 2U);
  BOOST_TEST(read.exactness[1].distribution == "peaked");
  BOOST_TEST(read.exactness[1].contenders.at("torch").max == 3.0);
  BOOST_TEST(read.exactness[1].bar == 2.0);
}

BOOST_AUTO_TEST_SUITE_END()
