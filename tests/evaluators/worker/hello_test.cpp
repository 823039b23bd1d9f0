// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/protocol.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(hello)

BOOST_AUTO_TEST_CASE(a_worker_of_another_version_is_named) {
  BOOST_TEST(check_hello(cultivar::hello("cpu"), "cpu").has_value());
  BOOST_TEST(!check_hello(cultivar::hello("cuda"), "cpu").has_value());
  BOOST_TEST(!check_hello("Welcome!", "cpu").has_value());
  auto other = cultivar::hello("cpu");
  other["cultivar"] = protocol_version + 1;
  BOOST_TEST(check_hello(other, "cpu").error().message.find(fmt::format("version {}", protocol_version)) !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
