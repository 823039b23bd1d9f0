// SPDX-License-Identifier: Apache-2.0
#include "engine/search/recorder.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(checkpoints)

BOOST_AUTO_TEST_CASE(copies_of_a_large_record_are_made_less_often) {
  CheckpointConfig config;
  config.every_s = 60.0;
  BOOST_TEST(Checkpoints::interval(config, 0.0) == 60.0);
  BOOST_TEST(Checkpoints::interval(config, 5.0) == 60.0);
  BOOST_TEST(Checkpoints::interval(config, 30.0) == 300.0);
}

BOOST_AUTO_TEST_SUITE_END()
