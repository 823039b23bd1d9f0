// SPDX-License-Identifier: Apache-2.0
#include "engine/config/model_settings.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/config/config.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

std::vector<ModelConfig> read(const std::string& text, bool limited = false) {
  return read_models(parse_yaml(text, "my.yaml"), "/base", limited);
}
std::string complaint(const std::string& text, bool limited = false) {
  try {
    read(text, limited);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no complaint";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_settings)

BOOST_AUTO_TEST_CASE(the_least_of_each_provider_gets_defaults) {
  const auto models = read(
      "claude: {provider: anthropic, model: claude-x}\n"
      "gpt: {provider: openai_responses, model: gpt-x}\n"
      "local: {provider: openai, model: q, base_url: \"http://127.0.0.1:8080/v1/\"}\n"
      "program: {provider: command, command: [claude, -p]}\n"
      "me: {provider: mailbox, folder: mail}\n");
  BOOST_TEST_REQUIRE(models.size() == 5U);
  BOOST_TEST(models[0].base_url == "https://api.anthropic.com/v1");
  BOOST_TEST(models[0].api_key_env == "ANTHROPIC_API_KEY");
  BOOST_TEST(models[1].api_key_env == "OPENAI_API_KEY");
  BOOST_TEST(models[2].base_url == "http://127.0.0.1:8080/v1");
  BOOST_TEST(models[2].api_key_env == "");  // nobody else gets OpenAI's key
  BOOST_TEST(models[3].limits.in_flight == 4);
  BOOST_TEST(models[4].folder == "/base/mail");
  BOOST_TEST(models[4].timeouts.total_s == 86400.0);
}

BOOST_AUTO_TEST_CASE(what_is_written_out_reads_back_the_same) {
  const std::string all =
      "\"the best\":\n"
      "  provider: anthropic\n  model: claude-x\n  base_url: https://gateway.example/v1\n  api_key_env: "
      "MY_KEY\n"
      "  extra: {top_k: 40, flag: true, nested: {a: [1, 2.5, \"3\"]}, text: \"a \\\"b\\\"\"}\n"
      "  max_output_tokens: 9000\n  effort: high\n  temperature: 0.5\n"
      "  timeouts: {connect: 3s, first_byte: 1m, idle: 30s, total: 10m}\n"
      "  limits: {requests_per_minute: 50, input_tokens_per_minute: 40000, output_tokens_per_minute: 8000, "
      "in_flight: 9}\n"
      "  budget: {usd: 2.5, tokens: 1000000}\n"
      "  prices: {input: 3, cached: 0.3, cache_written: 3.75, output: 15}\n"
      "  fallbacks: [other]\n"
      "  retry: {attempts: 7, first_wait: 1s, longest_wait: 1m, patience: 2h, fallback_after: 5s, "
      "breaker_failures: 2, "
      "breaker_rest: 10s}\n"
      "other: {provider: command, command: [codex, exec, -o, \"{answer_file}\"], answer: file, model: "
      "codex}\n";
  const auto models = read(all, true);
  BOOST_TEST(models[0].extra.dump() ==
             R"({"flag":true,"nested":{"a":[1,2.5,"3"]},"text":"a \"b\"","top_k":40})");
  BOOST_TEST(models[0].prices.cached == 0.3);
  BOOST_TEST(models[0].retry.patience_s == 7200.0);
  const std::string written = to_yaml(models);
  const YamlNode root = parse_yaml(written, "record");
  const auto again = read_models(root.map().require("models"), "/nowhere", true);
  BOOST_TEST(to_yaml(again) == written);
  BOOST_TEST(again[0].extra == models[0].extra);
  BOOST_TEST(again[1].command == models[1].command, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(fields_of_a_request_are_renamed_or_left_out) {
  const auto models = read(
      "a: {provider: openai, model: m, extra: {stream_options: null, stream: ~}, rename: {max_tokens: "
      "max_completion_tokens}}\n",
      false);
  BOOST_TEST(models[0].extra.dump() == R"({"stream":null,"stream_options":null})");
  BOOST_TEST(models[0].rename.at("max_tokens") == "max_completion_tokens");
  const std::string written = to_yaml(models);
  const auto again = read_models(parse_yaml(written, "record").map().require("models"), "/nowhere", true);
  BOOST_TEST(to_yaml(again) == written);
  BOOST_TEST(
      contains(complaint("a: {provider: openai, model: m, rename: {max_tokens: null}}"), "has no value"));
}

BOOST_AUTO_TEST_CASE(complaints_name_the_line_and_the_remedy) {
  BOOST_TEST(contains(complaint("a:\n  provider: antropic\n"), "my.yaml:2:"));
  BOOST_TEST(
      contains(complaint("a: {provider: openai, model: m, temprature: 1}"), "did you mean 'temperature'"));
  BOOST_TEST(contains(complaint("a: {provider: openai}"), "model"));
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m, base_url: localhost}"),
                      "write for example https://"));
  BOOST_TEST(
      contains(complaint("a: {provider: openai, model: m, base_url: \"http://h/v1/chat/completions\"}"),
               "is appended to base_url"));
  BOOST_TEST(
      contains(complaint("a: {provider: openai, model: m, fallbacks: [b]}\nbb: {provider: openai, model: m}"),
               "did you mean 'bb'"));
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m, fallbacks: [a]}"), "twice"));
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m, extra: {messages: []}}"),
                      "is set by Cultivar in every request"));
  BOOST_TEST(contains(complaint("a: {provider: command, command: [x], answer: file}"), "{answer_file}"));
  BOOST_TEST(
      contains(complaint("a: {provider: command, command: [x], base_url: \"http://h/v1\"}"), "base_url"));
  BOOST_TEST(contains(complaint("a: {provider: mailbox, folder: /dev/null}"), "is not a folder"));
  BOOST_TEST(
      contains(complaint("a: {provider: replay, file: none.jsonl}"), "no such file: /base/none.jsonl"));
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m, timeouts: {idle: soon}}"), "duration"));
}

BOOST_AUTO_TEST_CASE(a_budget_in_usd_needs_prices) {
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m}", true), "add prices"));
  BOOST_TEST(contains(complaint("a: {provider: openai, model: m, budget: {usd: 1}}"), "add prices"));
  BOOST_TEST(complaint("a: {provider: openai, model: m, prices: {input: 0, output: 0}}", true) ==
             "no complaint");
  BOOST_TEST(complaint("a: {provider: mailbox, folder: x}", true) == "no complaint");
}

BOOST_AUTO_TEST_CASE(a_key_goes_over_https_or_to_this_machine_alone) {
  const auto at = [](const std::string& url) {
    return complaint("a: {provider: openai, model: m, api_key_env: KEY, base_url: \"" + url + "\"}");
  };
  for (const char* url :
       {"https://far.example/v1", "http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"})
    BOOST_TEST(at(url) == "no complaint", url);
  for (const char* url : {"http://far.example/v1", "http://localhost.example/v1", "http://10.0.0.1:8000/v1"})
    BOOST_TEST(contains(at(url), "must start with https"), url);
}

BOOST_AUTO_TEST_CASE(a_placeholder_without_a_value_is_named) {
  const std::string words = complaint("a: {provider: command, command: [ask, \"{prompt_fle}\"]}");
  BOOST_TEST(contains(words, "{prompt_fle}"), words);
  BOOST_TEST(contains(words, "prompt_file"), words);
  BOOST_TEST(complaint("a: {provider: command, command: [ask, \"{prompt_file}\", \"{\\\"a\\\": 1}\"]}") ==
             "no complaint");
}

BOOST_AUTO_TEST_CASE(a_key_in_the_file_is_refused_and_not_repeated) {
  const std::string key = "sk-ant-api03-abcdef";
  for (const std::string& text :
       {"a: {provider: openai, model: m, extra: {api_key: " + key + "}}",
        "a: {provider: openai, model: m, extra: {headers: {Authorization: \"Bearer " + key + "\"}}}",
        "a: {provider: openai, model: m, extra: {user: " + key + "}}",
        "a: {provider: command, command: [ask, --api-key, " + key + "]}",
        "a: {provider: command, command: [env, \"KEY=" + key + "\", ask]}",
        "a: {provider: openai, model: m, api_key: " + key + "}",
        "a: {provider: openai, model: m, api_key_env: " + key + "}",
        "a: {provider: openai, model: m, base_url: \"https://gw.example/" + key + "/v1\"}",
        "a: {provider: openai, model: m, base_url: \"https://me:" + key + "@host/v1\"}"}) {
    const std::string words = complaint(text);
    BOOST_TEST(words != "no complaint");
    BOOST_TEST(!contains(words, key), words);
  }
}

BOOST_AUTO_TEST_SUITE_END()
