// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device.hpp"

#include <boost/test/unit_test.hpp>

using cultivar::visible_gpu;

BOOST_AUTO_TEST_SUITE(cuda_visible_gpu)

BOOST_AUTO_TEST_CASE(without_a_list_the_number_is_the_gpu) {
  BOOST_TEST(visible_gpu(std::nullopt, 0).value() == "0");
  BOOST_TEST(visible_gpu(std::nullopt, 7).value() == "7");
}

BOOST_AUTO_TEST_CASE(a_list_that_a_scheduler_made_is_counted_from_0) {
  BOOST_TEST(visible_gpu("3,5", 0).value() == "3");
  BOOST_TEST(visible_gpu("3, 5", 1).value() == "5");
  BOOST_TEST(visible_gpu("GPU-7fc1, MIG-22", 1).value() == "MIG-22");
}

BOOST_AUTO_TEST_CASE(what_is_not_in_the_list_is_an_error_that_says_so) {
  const auto beyond = visible_gpu("3,5", 2);
  BOOST_REQUIRE(!beyond.has_value());
  BOOST_TEST(beyond.error().message.find("'3,5', which shows 2 GPUs") != std::string::npos,
             beyond.error().message);
  BOOST_TEST(!visible_gpu("", 0).has_value());
  BOOST_TEST(!visible_gpu("0,-1,2", 1).has_value());
}

BOOST_AUTO_TEST_CASE(a_list_says_how_many_there_are_to_see) {
  using cultivar::visible_gpus;
  BOOST_TEST(visible_gpus("3,5") == 2);
  BOOST_TEST(visible_gpus("GPU-7fc1") == 1);
  BOOST_TEST(visible_gpus("0,-1,2") == 1);
  BOOST_TEST(visible_gpus("") == 0);
  BOOST_TEST(visible_gpus(std::nullopt) >= 0);
}

BOOST_AUTO_TEST_SUITE_END()
