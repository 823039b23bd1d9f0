// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/sse.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;

namespace {

// The texts of JSON values, put together as the pieces of an answer are.
std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    const nlohmann::json piece = json_with_cut_characters(value);
    BOOST_TEST_REQUIRE(piece.is_string(), value);
    text += piece.get<std::string>();
  }
  return whole_characters(std::move(text));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cut_characters)

BOOST_AUTO_TEST_CASE(halves_of_a_character_become_that_character) {
  BOOST_TEST(joined({R"("a \ud83d")", R"("\ude00 b")"}) == "a \xF0\x9F\x98\x80 b");
  BOOST_TEST(joined({"\"x\xF0\x9F\"", "\"\x98\x80y\""}) == "x\xF0\x9F\x98\x80y");
  BOOST_TEST(joined({"\"\xE2\"", "\"\x82\"", "\"\xAC\""}) == "\xE2\x82\xAC");
  BOOST_TEST(joined({R"("\ud83d\ude00")"}) == "\xF0\x9F\x98\x80");
}

BOOST_AUTO_TEST_CASE(a_half_that_stays_alone_is_replaced) {
  BOOST_TEST(joined({R"("a\ud83d")", R"("b")"}) ==
             "a\xEF\xBF\xBD"
             "b");
  BOOST_TEST(joined({R"("\ude00\ud83d")"}) == "\xEF\xBF\xBD\xEF\xBF\xBD");
  BOOST_TEST(joined({"\"\xFF\xC0\xAF\""}) == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(other_text_stays_as_it_is) {
  const std::string text = "plain \xE2\x82\xAC \xF4\x8F\xBF\xBD \xF4\x80\x80\x80 \xED\x9F\xBF";
  BOOST_TEST(whole_characters(text) == text);
  BOOST_TEST(joined({R"("\\ud83d \" \\")"}) == "\\ud83d \" \\");
  BOOST_TEST(json_with_cut_characters("{\"a\": \"\\ud83d\", nonsense").is_discarded());
  BOOST_TEST(json_with_cut_characters("\"\\ud8").is_discarded());
  nlohmann::json value = json_with_cut_characters(R"({"a": ["\ud83d"]})");
  make_characters_whole(value);
  BOOST_TEST(value["a"][0] == "\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_SUITE_END()
