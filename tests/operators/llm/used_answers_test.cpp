// SPDX-License-Identifier: Apache-2.0
// Answers in forms that some servers give them: used where there is something to use, and otherwise told to
// the user once.
#include <boost/test/unit_test.hpp>

#include "operators/llm/chat_errors.hpp"
#include "support/chat_services.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

std::string data(const json& value) {
  return "data: " + value.dump() + "\n\n";
}
json choice(const json& delta, const json& finish = nullptr) {
  return {{"choices", json::array({{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}})}};
}
std::string with(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  BOOST_TEST_REQUIRE(at != std::string::npos, from);
  return text.substr(0, at) + to + text.substr(at + from.size());
}

struct Client : Service {
  ChatResult against(const std::string& provider, const Reply& reply) {
    ChatServer server([&](const SeenRequest&) { return reply; });
    return ask_and_wait(*made(model_at(server.url(), provider), http), question("hello"));
  }
  ChatAnswer answer_to(const std::string& provider, const Reply& reply) {
    const ChatResult result = against(provider, reply);
    BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
    return *result;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(used_answers, Client)

BOOST_AUTO_TEST_CASE(content_may_be_a_list_of_parts) {
  const json thought =
      json::parse(R"([{"type": "thinking", "thinking": [{"type": "text", "text": "Hmm."}]}])");
  const json part = json::parse(R"([{"type": "text", "text": "a "}, "kernel"])");
  const ChatAnswer streamed = answer_to(
      "openai", event_stream(data(choice({{"content", thought}})) + data(choice({{"content", part}})) +
                             data(choice({{"content", ""}}, "stop"))));
  BOOST_TEST(streamed.text == "a kernel");
  BOOST_TEST(!streamed.from_reasoning);
  json all = thought;
  all.insert(all.end(), part.begin(), part.end());
  const json message{
      {"choices", json::array({{{"message", {{"content", all}}}, {"finish_reason", "stop"}}})}};
  BOOST_TEST(answer_to("openai", status_reply(200, message.dump())).text == "a kernel");
}

BOOST_AUTO_TEST_CASE(characters_that_are_cut_between_events_are_whole_again) {
  const std::string sent =
      "data: {\"choices\": [{\"delta\": {\"content\": \"x\\ud83d\"}}]}\n\n"
      "data: {\"choices\": [{\"delta\": {\"content\": \"\\ude00\\ud83d\"}}]}\n\n" +
      data(choice(json::object(), "stop"));
  BOOST_TEST(answer_to("openai", event_stream(sent)).text == "x\xF0\x9F\x98\x80\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(a_stream_may_end_with_done_alone) {
  for (const char* const end : {"data: [DONE]\n\n", "data: [DONE]", "data:[DONE] \n\n"}) {
    const ChatAnswer answer = answer_to("openai", event_stream(data(choice({{"content", "all"}})) + end));
    BOOST_TEST(answer.text == "all");
    BOOST_TEST((answer.stop == StopReason::end));
  }
  const std::string responses = responses_events("all of it", kUsage);
  const std::string until = responses.substr(0, responses.find("event: response.output_item.done"));
  BOOST_TEST(answer_to("openai_responses", event_stream(until + "data: [DONE]\n\n")).text == "all of it");
  const std::string anthropic = anthropic_events("all of it", kUsage);
  BOOST_TEST(
      answer_to("anthropic", event_stream(anthropic.substr(0, anthropic.find("event: message_stop")))).text ==
      "all of it");
  const ChatResult cut = against("openai", event_stream(data(choice({{"content", "a part"}}))));
  BOOST_TEST_REQUIRE(!cut.has_value());
  BOOST_TEST((cut.error().kind == ChatError::Kind::cut_off));
}

BOOST_AUTO_TEST_CASE(a_stream_may_have_another_type_and_lack_blank_lines) {
  Reply reply;
  reply.then("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
  reply.then(": hello\n\n" + data(choice({{"content", "x"}})) + "data:\n\n" + data(choice({}, "stop")));
  BOOST_TEST(answer_to("openai", reply).text == "x");
  std::string dense = data(choice({{"content", "x"}})) + data(choice({{"content", "y"}}, "stop"));
  while (contains(dense, "\n\n")) dense = with(dense, "\n\n", "\n");
  BOOST_TEST(answer_to("openai", event_stream(dense)).text == "xy");
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_complete_is_not_taken_back) {
  const std::string sent = openai_events("whole", kUsage);
  BOOST_TEST(answer_to("openai", event_stream(sent + "data: {\"error\": \"late\"}\n\ndata: {{{\n\n")).text ==
             "whole");
}

BOOST_AUTO_TEST_CASE(a_block_that_begins_after_the_end_does_not_spoil_the_answer) {
  const std::string sent = anthropic_events("whole", kUsage);
  for (const json& block : {json{{"type", 5}, {"thinking", ""}}, json{{"type", "thinking"}, {"thinking", 3}},
                            json{{"type", "text"}, {"text", {1, "a"}}}}) {
    const json late{{"type", "content_block_start"}, {"index", 7}, {"content_block", block}};
    BOOST_TEST(answer_to("anthropic", event_stream(sent + data(late))).text == "whole");
  }
}

BOOST_AUTO_TEST_CASE(what_came_as_reasoning_alone_is_read_as_the_answer) {
  const ChatAnswer answer =
      answer_to("openai", event_stream(data(choice({{"reasoning_content", "the kernel"}})) +
                                       data(choice(json::object(), "stop"))));
  BOOST_TEST(answer.text == "the kernel");
  BOOST_TEST(answer.from_reasoning);
  BOOST_TEST(answer_from_record(to_record(answer)).from_reasoning);
}

BOOST_AUTO_TEST_CASE(an_answer_without_text_is_told_once_with_the_setting_to_change) {
  const json usage{{"prompt_tokens", 100},
                   {"completion_tokens", 1000},
                   {"completion_tokens_details", {{"reasoning_tokens", 1000}}}};
  json last = choice(json::object(), "length");
  last["usage"] = usage;
  ChatServer server([&](const SeenRequest& seen) {
    return seen.body["model"] == "blank"
               ? event_stream(data(choice({{"content", "\n\n"}}, "stop")))
               : event_stream(data(choice({{"reasoning_content", "Tiles..."}})) + data(last));
  });
  add("a", server.url());
  add("b", server.url()).max_output_tokens = 500;
  configs.back().effort = Effort::high;
  add("c", server.url()).model = "blank";
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(says_nothing(result->answer));
  BOOST_TEST(ask("again").has_value());
  BOOST_TEST(ask("the second", "b").has_value());
  BOOST_TEST(ask("the third", "c").has_value());
  service.reset();
  BOOST_TEST(server.seen().size() == 4U);  // none was asked for again
  BOOST_TEST_REQUIRE(events.size() == 3U);
  BOOST_TEST(
      events[0] ==
      "an answer of model a has no text: it used all 1000 output tokens for reasoning and sent no text; "
      "raise asking.output_tokens (now 1000), or set a lower models.a.effort");
  BOOST_TEST(contains(events[1],
                      "raise models.b.max_output_tokens (now 500), or set a lower models.b.effort "
                      "(now high)"),
             events[1]);
  BOOST_TEST(contains(events[2], "it sent nothing but white space as text; raise asking.output_tokens"),
             events[2]);
}

BOOST_AUTO_TEST_CASE(blank_text_is_not_sent_back) {
  for (const Spoken& spoken : protocols()) {
    ChatServer server([&](const SeenRequest&) { return event_stream(spoken.events("ok", kUsage, {})); });
    ChatRequest request = question("hello");
    ChatMessage blank{ChatRole::assistant, "\n\n"};
    blank.tool_calls.push_back({"c1", "compile", "{}"});
    request.messages.push_back(blank);
    BOOST_TEST(ask_and_wait(*made(model_at(server.url(), spoken.provider), http), request).has_value());
    BOOST_TEST(!contains(server.seen().back().text, "\"\\n\\n\""), server.seen().back().text);
  }
}

BOOST_AUTO_TEST_CASE(any_field_can_be_renamed_or_left_out_and_a_rejection_says_how) {
  const std::string refusal =
      R"({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model.", )"
      R"("type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}})";
  ChatServer server([&](const SeenRequest& seen) {
    if (seen.body.contains("max_tokens")) return status_reply(400, refusal);
    if (seen.body.contains("stream_options"))
      return status_reply(422, R"({"detail": "extra field `stream_options`"})");
    return good();
  });
  ModelConfig config = model_at(server.url(), "openai");
  const ChatResult first = ask_and_wait(*made(config, http), question("hello"));
  BOOST_TEST_REQUIRE(!first.has_value());
  BOOST_TEST((first.error().kind == ChatError::Kind::bad_request));
  BOOST_TEST(contains(first.error().message, "models.m.rename: {max_tokens: max_completion_tokens}"),
             first.error().message);
  BOOST_TEST(contains(first.error().message, "models.m.extra: {max_tokens: null}"), first.error().message);
  config.rename = {{"max_tokens", "max_completion_tokens"}};
  const ChatResult second = ask_and_wait(*made(config, http), question("hello"));
  BOOST_TEST_REQUIRE(!second.has_value());
  BOOST_TEST(contains(second.error().message, "models.m.extra: {stream_options: null}"),
             second.error().message);
  config.extra = {{"stream_options", nullptr}, {"top_k", 40}};
  BOOST_TEST(ask_and_wait(*made(config, http), question("hello")).has_value());
  const json body = server.seen().back().body;
  BOOST_TEST(body["max_completion_tokens"] == 1000);
  BOOST_TEST(body["top_k"] == 40);
  BOOST_TEST(!body.contains("stream_options"));
}

BOOST_AUTO_TEST_SUITE_END()
