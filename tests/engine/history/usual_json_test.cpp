// SPDX-License-Identifier: Apache-2.0
#include "engine/history/recorded_individuals.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/tunables.hpp"

using namespace cultivar;
using nlohmann::json;

BOOST_AUTO_TEST_SUITE(usual_json)

BOOST_AUTO_TEST_CASE(what_the_record_holds_is_read_as_it_was_written) {
  const Configuration configuration{
      {"BLOCK", std::int64_t{-48}}, {"LAYOUT", std::string("packed")}, {"N", INT64_MAX}};
  BOOST_TEST((configuration_in(json_text(configuration)) == configuration));
  BOOST_TEST(configuration_in("{}").empty());
  const std::vector<double> numbers{14.398239138726764, 1e-300, -2.5e17, 0.1, 3.0};
  BOOST_TEST(numbers_in(json_text(numbers)) == numbers);
  BOOST_TEST(numbers_in("[]").empty());
  const std::vector<std::int64_t> ids{1, 7048, INT64_MAX};
  BOOST_TEST(whole_numbers_in(json_text(ids)) == ids);
  const JudgeBody body =
      judge_body(R"({"descriptors":{"launches":1.0,"registers":168.0},"device_s":2.5,"spread":0.021})");
  BOOST_TEST(body.spread == 0.021);
  BOOST_TEST(body.device_s == 2.5);
  BOOST_TEST((body.descriptors == std::map<std::string, double>{{"launches", 1.0}, {"registers", 168.0}}));
  BOOST_TEST(judge_body(R"({"device_s":0.5})").device_s == 0.5);
  BOOST_TEST(judge_body(R"({"device_s":0.5})").spread == 0.0);  // of earlier versions
  BOOST_TEST(judge_body("").device_s == 0.0);                   // of earlier versions
}

BOOST_AUTO_TEST_CASE(other_forms_are_read_as_any_json) {
  BOOST_TEST((configuration_in(R"( { "B" : 2, "A\u0041" : "x\"y" } )") ==
              Configuration{{"AA", std::string("x\"y")}, {"B", std::int64_t{2}}}));
  BOOST_TEST(numbers_in("[1, 2.5]") == (std::vector<double>{1.0, 2.5}));
  BOOST_TEST(whole_numbers_in("[ 3 ]") == std::vector<std::int64_t>{3});
  const JudgeBody body =
      judge_body(R"({"device_s": 1, "later": [true], "descriptors": {"a": 2}, "spread": 0.5})");
  BOOST_TEST(body.spread == 0.5);
  BOOST_TEST(body.device_s == 1.0);
  BOOST_TEST(body.descriptors.at("a") == 2.0);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_refused) {
  for (const char* text : {"", "{", "[", "{\"A\":1}x", "{\"A\":1.5}", "{\"A\":1,}", "{\"A\":true}", "[1"})
    BOOST_CHECK_THROW(configuration_in(text), std::exception);
  for (const char* text : {"", "[1,]", "[nan]", "[1]2", "{}", "[--1]", "[\"1\"]"})
    BOOST_CHECK_THROW(numbers_in(text), std::exception);
  for (const char* text : {"{}", R"({"device_s":"x"})", R"({"descriptors":{}})", "[]"})
    BOOST_CHECK_THROW(judge_body(text), std::exception);
}

BOOST_AUTO_TEST_SUITE_END()
