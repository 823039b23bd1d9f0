// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/lineage.hpp"

#include <boost/test/unit_test.hpp>

#include "support/settled.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(lineage)

BOOST_AUTO_TEST_CASE(every_proposal_continues_the_best) {
  OneLine line(PopulationOptions{.strategy = StrategyKind::lineage});
  Archive archive;
  RandomStream stream = stream_of(1, "selection", 0);
  BOOST_TEST(line.parents(0, {}, archive, stream).empty());
  for (const double fitness : {1.0, 3.0, 2.0}) settle(line, archive, {.fitness = fitness});
  const auto parent = [&] { return line.parents(0, {}, archive, stream); };
  BOOST_TEST((parent() == std::vector<IndividualId>{2}));  // the fittest, until there is an incumbent
  line.promoted(3);
  BOOST_TEST((parent() == std::vector<IndividualId>{3}));  // fitness alone promotes nothing
  line.promoted(1);
  BOOST_TEST((parent() == std::vector<IndividualId>{1}));
  line.expel(1);
  BOOST_TEST((parent() == std::vector<IndividualId>{3}));
}

BOOST_AUTO_TEST_CASE(partners_are_settings_of_its_source_or_earlier_ends) {
  OneLine line(PopulationOptions{.strategy = StrategyKind::lineage});
  Archive archive;
  settle(line, archive, {.fitness = 1.0, .source = "a", .founder = true});
  settle(line, archive, {.fitness = 2.0, .source = "b", .parents = {1}});
  settle(line, archive, {.fitness = 1.8, .source = "b", .parents = {2}});
  line.promoted(1);
  line.promoted(2);
  RandomStream stream = stream_of(1, "selection", 0);
  BOOST_TEST((line.parents(0, {.count = 2, .partner = Partner::tuning}, archive, stream) ==
              std::vector<IndividualId>{2, 3}));
  BOOST_TEST((line.parents(0, {.count = 2}, archive, stream) == std::vector<IndividualId>{2, 1}));
  BOOST_TEST((line.parents(0, {.count = 2, .partner = Partner::complement}, archive, stream) ==
              std::vector<IndividualId>{2}));
}

BOOST_AUTO_TEST_SUITE_END()
