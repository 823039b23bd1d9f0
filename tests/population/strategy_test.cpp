// SPDX-License-Identifier: Apache-2.0
#include "population/strategy.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(strategy)

BOOST_AUTO_TEST_CASE(every_strategy_is_made_by_its_name) {
  for (const std::string& name : strategy_names()) {
    PopulationOptions options;
    options.strategy = strategy_named(name);
    options.axes = {"family"};
    BOOST_TEST(name_of(options.strategy) == name);
    const auto made = make_strategy(options);
    BOOST_TEST(made->islands() == (options.strategy == StrategyKind::islands ? options.islands : 1));
  }
  BOOST_CHECK_THROW(strategy_named("random"), std::out_of_range);
}

BOOST_AUTO_TEST_SUITE_END()
