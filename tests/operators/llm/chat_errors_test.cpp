// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/chat_errors.hpp"

#include <boost/test/unit_test.hpp>

#include "operators/llm/secret.hpp"

using namespace cultivar;
using Kind = ChatError::Kind;

namespace {

std::string kind_of(int status, const std::string& body = "{}") {
  return name_of(error_of_status(status, body).kind);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_errors)

BOOST_AUTO_TEST_CASE(each_status_has_its_kind) {
  BOOST_TEST(kind_of(400) == "bad_request");
  BOOST_TEST(kind_of(401) == "auth");
  BOOST_TEST(kind_of(402) == "out_of_credit");
  BOOST_TEST(kind_of(403) == "auth");
  BOOST_TEST(kind_of(404) == "bad_request");
  BOOST_TEST(kind_of(413) == "too_large");
  BOOST_TEST(kind_of(307) == "bad_request");
  for (const int status : {408, 409, 500, 502, 503, 504, 529})
    BOOST_TEST(kind_of(status) == "overloaded", status);
  BOOST_TEST(kind_of(429) == "rate_limited");
}

BOOST_AUTO_TEST_CASE(words_say_what_the_status_does_not) {
  BOOST_TEST(
      kind_of(429, R"({"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}})") ==
      "out_of_credit");
  BOOST_TEST(kind_of(400, R"({"type": "error", "error": {"type": "invalid_request_error",
                              "message": "Your credit balance is too low to access the API."}})") ==
             "out_of_credit");
  BOOST_TEST(kind_of(400, R"({"error": {"code": "context_length_exceeded", "message": "too long"}})") ==
             "too_large");
  BOOST_TEST(
      kind_of(400,
              R"({"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}})") ==
      "too_large");
}

BOOST_AUTO_TEST_CASE(any_body_becomes_one_line_of_bounded_length) {
  for (const std::string body : {"<html>\n\n  <h1>Bad\tGateway</h1>", "", "[1, 2]", "\"text\"",
                                 "{\"error\": 7}", "{\"error\": {\"message\": {\"deep\": 1}}}", "\xff\xfe"}) {
    const ChatError error = error_of_status(502, body);
    BOOST_TEST(error.message.starts_with("HTTP 502"));
    BOOST_TEST(error.message.find('\n') == std::string::npos);
  }
  BOOST_TEST(error_of_status(500, std::string(100'000, 'x')).message.size() < 600U);
}

BOOST_AUTO_TEST_CASE(retry_after_is_seconds_or_a_date) {
  BOOST_TEST(retry_after_seconds("7", 0).value() == 7.0);
  BOOST_TEST(retry_after_seconds("0.5", 0).value() == 0.5);
  // 784111777 s: the example of RFC 9110.
  BOOST_TEST(retry_after_seconds("Sun, 06 Nov 1994 08:49:37 GMT", 784111747).value() == 30.0);
  BOOST_TEST(retry_after_seconds("Sun, 06 Nov 1994 08:49:37 GMT", 784111787).value() == 0.0);  // just over
  BOOST_TEST(!retry_after_seconds("Sun, 06 Nov 1994 08:49:37 GMT", 1.7e9));
  for (const char* nonsense : {"", "soon", "-3", "nan", "1e999", "3 apples"})
    BOOST_TEST(!retry_after_seconds(nonsense, 0), nonsense);
}

BOOST_AUTO_TEST_CASE(a_key_is_taken_out_of_text_and_never_named) {
  const Secret key("sk-0123456789");
  BOOST_TEST(key.redacted("bad key sk-0123456789! (sk-0123456789)") == "bad key [key]! ([key])");
  BOOST_TEST(Secret().redacted("text") == "text");
  const auto from = [](const std::string& value) {
    return secret_from("MY_KEY", [value](const std::string&) { return std::optional(value); });
  };
  BOOST_TEST(from("sk-0123456789").has_value());
  const auto torn = from("sk-012345\r\nX-Evil: 1");
  BOOST_TEST_REQUIRE(!torn.has_value());
  BOOST_TEST(torn.error().message.find("MY_KEY") != std::string::npos);
  BOOST_TEST(torn.error().message.find("sk-") == std::string::npos);
  BOOST_TEST(!secret_from("NONE", [](const std::string&) { return std::optional<std::string>(); }));
  BOOST_TEST(secret_from("", [](const std::string&) { return std::optional<std::string>(); }).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
