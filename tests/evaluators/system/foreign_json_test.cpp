// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/json_text.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(foreign_json)

BOOST_AUTO_TEST_CASE(where_a_text_breaks_is_said_with_line_byte_and_what_to_change) {
  const struct {
    std::string text, words;
  } cases[] = {
      {"", "the text is empty"},
      {" \n", "the text is empty"},
      {"{\"a\": [1, 2", "the text ends too early: a quotation mark, a bracket or a brace is not closed"},
      {"{\"a\": \"x", "the text ends too early"},
      {"{'a': 1}", "line 1, byte 2, after `{'`: unexpected character"},
      {"{\n  \"a\": 1,\n}", "line 3, byte 1, after `}`"},
      {"{\n  \"text\": \"one\ntwo\"}",
       "line 2, byte 15, after `  \"text\": \"one `: inside quotation marks, write a line"},
      {"\xff\xfe{}", "line 1, byte 1, after `?`"},
      {"{\"a\": 1e999}", "a number is too large"},
      {std::string(100, '['), "the JSON is nested more than 64 levels deep"},
  };
  for (const auto& each : cases) {
    const std::string words = where_json_breaks(each.text);
    BOOST_TEST(words.find(each.words) == 0U, words);
    BOOST_TEST(words.find("exception") == std::string::npos, words);
    BOOST_TEST(words.size() < 400U);
  }
  BOOST_TEST(where_json_breaks("{\"a\": [1, null, \"x\"]}") == "");
}

BOOST_AUTO_TEST_CASE(a_librarys_name_and_number_are_omitted) {
  try {
    (void)nlohmann::json::parse("{\"a\": 1}").at("b").get<int>();
    BOOST_ERROR("there is no b");
  } catch (const nlohmann::json::exception& e) {
    BOOST_TEST(said_shortly(e) == "key 'b' not found");
  }
  BOOST_TEST(said_shortly(std::runtime_error("the disk [sda] is full")) == "the disk [sda] is full");
}

BOOST_AUTO_TEST_SUITE_END()
