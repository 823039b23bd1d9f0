// SPDX-License-Identifier: Apache-2.0
// Keys that programs print: none is recorded or shown.
#include "operators/llm/secret.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "operators/llm/chat_service.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

constexpr const char* kValue = "plain0secret0value";  // no service's shape: only its variable tells

struct Variables {
  Variables() {
    ::setenv("MASK_TEST_NAMED", kValue, 1);
    ::setenv("MASK_TEST_TOKEN", "another,odd-value", 1);
    ::setenv("MASK_TEST_SECRET", "short", 1);
  }
  ~Variables() {
    for (const char* name : {"MASK_TEST_NAMED", "MASK_TEST_TOKEN", "MASK_TEST_SECRET"}) ::unsetenv(name);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(key_mask, Variables)

BOOST_AUTO_TEST_CASE(values_of_variables_are_taken_out_also_when_they_were_cut_off) {
  const KeyMask mask({"MASK_TEST_NAMED", "", "MASK_TEST_UNSET"});
  BOOST_TEST(mask.without_values("a plain0secret0value, another,odd-value; short") ==
             "a [key], [key]; short");
  BOOST_TEST(mask.without_values("cut off: plain0secret0 ...") == "cut off: [key] ...");
  BOOST_TEST(KeyMask().without_values(kValue) == kValue);
}

BOOST_AUTO_TEST_CASE(words_of_a_keys_shape_are_taken_out_of_errors_and_no_others) {
  const KeyMask mask;
  BOOST_TEST(mask.without_keys(
                 "key sk-ant-api03-AbC_dEf-123. Ask 'ghp_0123456789abcd'=sk-aaaaaaaaaaaaaaaaaaaaaaaa") ==
             "key [key]. Ask '[key]'=[key]");
  const std::string harmless =
      "task-0123456789012345, sk-learn-like, hf_hub_download "
      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 /usr/lib/x86_64-linux-gnu/libm.so.6";
  BOOST_TEST(mask.without_keys(harmless) == harmless);
}

BOOST_AUTO_TEST_CASE(what_a_failing_program_prints_is_recorded_and_shown_without_keys) {
  TemporaryFolder folder;
  write_text(folder.path() / "lie.sh",
             "#!/bin/bash\ncat > /dev/null\necho \"Error: key $MASK_TEST_NAMED\" >&2\n"
             "echo 'or sk-ant-api03-BBBBBBBBBBBBBBBB0'\nexit 1\n",
             true);
  write_text(folder.path() / "tell.sh", "#!/bin/bash\ncat > /dev/null\necho \"mine is $MASK_TEST_TOKEN\"\n",
             true);
  MemoryLog log;
  std::string told;
  ChatServiceOptions options;
  options.event = [&](const std::string& text, bool) { told += text; };
  std::map<std::string, std::unique_ptr<ChatModel>> models;
  for (const std::string name : {"lie", "tell"}) {
    ModelConfig config;
    config.name = name;
    config.provider = "command";
    config.command = {(folder.path() / (name + ".sh")).string()};
    config.retry.attempts = config.retry.breaker_failures = 1;
    config.api_key_env = name == "lie" ? "MASK_TEST_NAMED" : "";
    options.models.push_back(config);
    models[name] = made(config, nullptr);
  }
  auto service = ChatService::make(std::move(options), std::move(models), log);
  BOOST_TEST_REQUIRE(service.has_value());
  const ServedResult lie = ask_and_wait(**service, {"mutate", "lie", question("x")});
  BOOST_TEST_REQUIRE(!lie.has_value());
  const ServedResult answer = ask_and_wait(**service, {"mutate", "tell", question("y")});
  BOOST_TEST_REQUIRE(answer.has_value());
  service->reset();
  BOOST_TEST(answer->answer.text == "mine is [key]\n");
  BOOST_TEST(log.rows.at(1).answer->text == "mine is [key]\n");
  for (const std::string& text : {lie.error().message, log.rows.at(0).error->message, told}) {
    BOOST_TEST(text.find("Error: key [key] or [key]") != std::string::npos, text);
    BOOST_TEST(text.find(kValue) == std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
