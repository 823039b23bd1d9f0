// SPDX-License-Identifier: Apache-2.0
// Answers that no honest provider sends: each ends its call but not the search, and none changes a budget or
// a key.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "operators/llm/ledger.hpp"
#include "operators/llm/mailbox.hpp"
#include "operators/llm/secret.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

std::string anthropic(const std::string& content,
                      const std::string& usage = R"({"input_tokens": 5, "output_tokens": 5})") {
  return R"({"type": "message", "id": "m", "model": "x", "stop_reason": "end_turn", "usage": )" + usage +
         R"(, "content": )" + content + "}";
}

std::string openai(const std::string& usage, const std::string& extra = "") {
  return R"({"id": "i", "model": "x", "choices": [{"index": 0, "message": {"content": "four words of text")" +
         extra + R"(}, "finish_reason": "stop"}], "usage": )" + usage + "}";
}

std::string responses(const std::string& output, const std::string& usage) {
  return R"({"id": "r", "status": "completed", "model": "x", "output": )" + output + R"(, "usage": )" +
         usage + "}";
}

struct Client {
  std::shared_ptr<HttpClient> http = std::make_shared<HttpClient>();
  ChatResult ask(const std::string& provider, const Reply& reply) {
    ChatServer server([&](const SeenRequest&) { return reply; });
    return ask_and_wait(*made(model_at(server.url(), provider), http), question("hello"));
  }
  ChatResult whole(const std::string& provider, const std::string& body) {
    return ask(provider, status_reply(200, body));
  }
  void is_garbage(const ChatResult& result) {
    BOOST_TEST_REQUIRE(!result.has_value(), words_of(result));
    BOOST_TEST(name_of(result.error().kind) == "garbage", result.error().message);
    BOOST_TEST(result.error().message.size() < 1000U);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hostile_answers, Client)

BOOST_AUTO_TEST_CASE(a_shape_that_the_protocol_does_not_have_ends_the_call_as_garbage) {
  is_garbage(whole("anthropic", anthropic(R"(["hello"])")));
  is_garbage(whole("anthropic", anthropic(R"([{"type": "text", "text": null}])")));
  is_garbage(whole("anthropic", anthropic(R"([{"type": "tool_use", "id": 7, "name": [], "input": 3}])")));
  is_garbage(whole("openai_responses", responses(R"(["text", {"type": 5}])", "{}")));
  is_garbage(
      ask("anthropic",
          event_stream(R"(data: {"type":"message_start","message":{"model":"x","usage":{"input_tokens":3}}})"
                       "\n\n"
                       R"(data: {"type":"content_block_start","index":0,"content_block":{"type":null}})"
                       "\n\n"
                       R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}})"
                       "\n\n"
                       R"(data: {"type":"message_stop"})"
                       "\n\n")));
}

BOOST_AUTO_TEST_CASE(what_nests_without_end_is_not_even_read) {
  const std::string deep = nested(300'000);
  is_garbage(whole("anthropic", anthropic(R"([{"type": "thinking", "x": )" + deep +
                                          R"(}, {"type": "text", "text": "hi"}])")));
  is_garbage(
      whole("openai", openai("{}", R"(, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": )" +
                                       deep + "}}]")));
  is_garbage(whole("openai_responses", responses(R"([{"type": "reasoning", "x": )" + deep + "}]", "{}")));
  is_garbage(ask("openai", event_stream("data: {\"choices\": " + deep + "}\n\n")));
  const ChatResult status = ask("openai", status_reply(500, R"({"error": )" + deep + "}"));
  BOOST_TEST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message.size() < 250U);
}

BOOST_AUTO_TEST_CASE(arguments_that_nest_without_end_are_no_arguments) {
  const std::string deep = "{\"a\":" + nested(300'000) + "}";
  BOOST_TEST(!(ToolCall{"1", "f", deep}).parsed().has_value());
  const ChatResult result =
      whole("openai", openai("{}", R"(, "tool_calls": [{"id": "a", "function": {"name": "f", )"
                                   R"("arguments": )" +
                                       json(deep).dump() + "}}]"));
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  // And it can be sent back.
  ChatRequest next = question("hello");
  next.messages.push_back(result->as_message());
  ChatServer server([&](const SeenRequest&) { return status_reply(200, openai("{}")); });
  BOOST_TEST(ask_and_wait(*made(model_at(server.url(), "openai"), http), next).has_value());
}

BOOST_AUTO_TEST_CASE(a_mailbox_answer_that_is_nested_too_deeply_is_rejected_with_a_message) {
  const auto answer = read_mailbox_answer("{\"tool_calls\": " + nested(400'000) + "}", true, question("x"));
  BOOST_TEST_REQUIRE(!answer.has_value());
  ChatRequest offering = question("x");
  offering.tools.push_back({"check", "does", {{"type", "object"}}});
  const std::string call =
      "```tool\n{\"tool\": \"check\", \"arguments\": {\"a\": " + nested(400'000) + "}}\n```\n";
  const auto text = read_mailbox_answer(call, false, offering);
  BOOST_TEST_REQUIRE(!text.has_value());
  BOOST_TEST(text.error().message.find("nested deeper than 64 levels") != std::string::npos,
             text.error().message);
  BOOST_TEST(answer.error().message.find("nested more than 64 levels deep") != std::string::npos,
             answer.error().message);
}

BOOST_AUTO_TEST_CASE(usage_is_neither_negative_nor_beyond_belief) {
  constexpr std::int64_t most = 4 * kMostTokensSaid;
  const std::string absurd[] = {
      R"({"prompt_tokens": -5000000, "completion_tokens": -9223372036854775808})",
      R"({"prompt_tokens": 9223372036854775807, "completion_tokens": 9223372036854775807,
          "prompt_tokens_details": {"cached_tokens": -9223372036854775807}})",
      R"({"prompt_tokens": 1e308, "completion_tokens": 18446744073709551615})",
      R"({"prompt_tokens": "many", "completion_tokens": null})"};
  for (const std::string& usage : absurd) {
    const ChatResult said = whole("openai", openai(usage));
    BOOST_TEST_REQUIRE(said.has_value(), words_of(said));
    BOOST_TEST(said->usage.total() > 0);  // nothing said, or nothing that can be: estimated
    BOOST_TEST(said->usage.total() <= most);
  }
  for (const char* number : {"-1000000000000000", "9223372036854775807", "1e300"})
    for (const std::string provider : {"anthropic", "openai_responses"}) {
      const std::string usage =
          std::string(R"({"input_tokens": )") + number + R"(, "output_tokens": )" + number + "}";
      const ChatResult said =
          whole(provider, provider == "anthropic"
                              ? anthropic(R"([{"type": "text", "text": "hi"}])", usage)
                              : responses(R"([{"type": "message", "content": [{"text": "hi"}]}])", usage));
      BOOST_TEST_REQUIRE(said.has_value(), words_of(said));
      BOOST_TEST(said->usage.total() > 0);
      BOOST_TEST(said->usage.total() <= most);
    }
  BOOST_TEST(!said_usd(json::parse(R"({"usd": -23000})"), "usd").has_value());
  BOOST_TEST(said_usd(json::parse(R"({"usd": 1e308})"), "usd").value() == kMostUsdSaid);
  BOOST_TEST(within_reason(std::nan("")) == 0.0);
  Usage sum;
  sum.input = std::numeric_limits<std::int64_t>::max();
  sum += sum;
  sum.output = sum.cached = sum.cache_written = sum.input;
  BOOST_TEST(sum.total() > 0);
}

BOOST_AUTO_TEST_CASE(a_key_in_thoughts_that_are_carried_is_in_no_record) {
  const std::string key = kTestKey;
  const ChatResult thought = whole(
      "anthropic",
      anthropic(json::array({{{"type", "thinking"}, {"thinking", "your key is " + key}, {"signature", key}},
                             {{"type", "text"}, {"text", "hello " + key}}})
                    .dump()));
  BOOST_TEST_REQUIRE(thought.has_value(), words_of(thought));
  BOOST_TEST(!thought->carried.is_null());
  BOOST_TEST(to_record(*thought).dump().find(key) == std::string::npos);
  const json items =
      json::array({{{"type", "reasoning"}, {"encrypted_content", key}, {key, {{"deep", json::array({key})}}}},
                   {{"type", "function_call"}, {"call_id", key}, {"name", key}, {"arguments", "{}"}}});
  const ChatResult reasoned = whole("openai_responses", responses(items.dump(), "{}"));
  BOOST_TEST_REQUIRE(reasoned.has_value(), words_of(reasoned));
  BOOST_TEST(!reasoned->carried.is_null());
  BOOST_TEST(to_record(*reasoned).dump().find(key) == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
