// SPDX-License-Identifier: Apache-2.0
#include "engine/config/settings.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;
using nlohmann::json;

BOOST_AUTO_TEST_SUITE(secret_words)

BOOST_AUTO_TEST_CASE(names_of_keys_are_known_from_names_of_settings) {
  for (const char* name : {"api_key", "API-Key", "apikey", "x-api-key", "Authorization", "OPENAI_API_KEY",
                           "token", "auth_token", "client_secret", "password", "--api-key"})
    BOOST_TEST(names_a_secret(name), name);
  for (const char* name : {"max_tokens", "max_completion_tokens", "top_k", "api_key_env", "key_file",
                           "keywords", "author", "stop_token_ids", "--api-key-helper"})
    BOOST_TEST(!names_a_secret(name), name);
}

BOOST_AUTO_TEST_CASE(keys_are_known_from_settings) {
  for (const char* value :
       {"sk-ant-api03-abcdefgh", "Bearer abc", "authorization: x", "key is sk-proj-1234567890",
        "AIzaSyA1234567", "0123456789abcdef0123456789abcdef0123456789abcdef"})
    BOOST_TEST(looks_like_a_secret(value), value);
  for (const char* value : {"gpt-5", "sk-1", "high", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8",
                            "/usr/local/share/some-folder-with-a-long-name-1/and/another",
                            "a prompt of several words", "claude-opus-4-20250514"})
    BOOST_TEST(!looks_like_a_secret(value), value);
}

BOOST_AUTO_TEST_CASE(a_secret_is_found_wherever_it_stands_and_is_not_repeated) {
  BOOST_TEST(!secret_in(json{{"top_k", 40}, {"reasoning", {{"effort", "high"}}}, {"stop", {"a", "b"}}}));
  BOOST_TEST(secret_in(json{{"a", {{"b", {{"api_key", "x"}}}}}}).value() == "field 'api_key'");
  BOOST_TEST(secret_in(json{{"a", {1, "sk-abcdefghijkl"}}}).value() == "a value of a list");
  BOOST_TEST(secret_in(json{{"a", {{{"b", "Bearer 12"}}}}}).value() == "field 'b'");
}

BOOST_AUTO_TEST_CASE(arguments_that_hand_over_a_key_are_found) {
  using Words = std::vector<std::string>;
  BOOST_TEST(!secret_in(Words{"claude", "-p", "--max-tokens", "100", "--model=claude-opus-4"}));
  BOOST_TEST(!secret_in(Words{"sh", "-c", "ask --api-key=$KEY"}));
  BOOST_TEST(secret_in(Words{"ask", "--api-key", "x"}).value() == "argument 1");
  BOOST_TEST(secret_in(Words{"env", "OPENAI_API_KEY=x", "ask"}).value() == "argument 1");
  BOOST_TEST(secret_in(Words{"curl", "-H", "Authorization: Bearer x"}).value() == "argument 2");
}

BOOST_AUTO_TEST_SUITE_END()
