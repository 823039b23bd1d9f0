// SPDX-License-Identifier: Apache-2.0
// The HTTP providers against a real server on this machine, with and without faults.
#include "operators/llm/http_chat.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;
using nlohmann::json;

namespace {

const std::string kText =
    "Use \xE2\x82\xAC and \xF0\x9F\x98\x80: tiles of 64, \"quoted\"\nand a second line.";
const SaidUsage kUsage{100, 40, 7, 25, 5};

struct Client {
  std::shared_ptr<HttpClient> http = std::make_shared<HttpClient>();
  ChatResult ask(const ModelConfig& config, const ChatRequest& request = question("hello"),
                 std::stop_token stop = {}) {
    return ask_and_wait(*made(config, http), request, std::move(stop));
  }
  // One reply for all that is asked.
  ChatResult against(const Spoken& spoken, const Reply& reply, ChatTimeouts timeouts = {2, 5, 5, 20}) {
    ChatServer server([&](const SeenRequest&) { return reply; });
    ModelConfig config = model_at(server.url(), spoken.provider);
    config.timeouts = timeouts;
    return ask(config);
  }
};

double seconds_of(const std::function<void()>& what) {
  const auto start = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#define CHECK_KIND(result, wanted)                                               \
  do {                                                                           \
    const ChatResult& r_ = (result);                                             \
    BOOST_TEST_REQUIRE(!r_.has_value(), words_of(r_));                           \
    BOOST_TEST(name_of(r_.error().kind) == name_of(wanted), r_.error().message); \
  } while (false)

}  // namespace

BOOST_FIXTURE_TEST_SUITE(http_chat, Client)

BOOST_AUTO_TEST_CASE(an_answer_is_read_whole_wherever_the_stream_is_torn) {
  for (const Spoken& spoken : protocols())
    for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{97}, std::size_t{1}}) {
      Reply reply = event_stream(spoken.events(kText, kUsage, {}));
      reply.in_pieces(piece);
      const ChatResult result = against(spoken, reply);
      BOOST_TEST_REQUIRE(result.has_value(), spoken.provider << " " << piece << ": " << words_of(result));
      BOOST_TEST(result->text == kText);
      BOOST_TEST((result->stop == StopReason::end));
      BOOST_TEST(result->request_id == "req_42");
      BOOST_TEST(result->model.find("-test-") != std::string::npos);
      const bool anthropic = spoken.provider == std::string("anthropic");
      BOOST_TEST(result->usage.input == (anthropic ? 100 : 60));
      BOOST_TEST(result->usage.cached == 40);
      BOOST_TEST(result->usage.cache_written == (anthropic ? 7 : 0));
      BOOST_TEST(result->usage.output == 25);
      BOOST_TEST(!result->usage.estimated);
      BOOST_TEST(result->seconds >= result->first_byte_s);
    }
}

BOOST_AUTO_TEST_CASE(deltas_are_the_answer_in_order) {
  for (const Spoken& spoken : protocols()) {
    ChatServer server(
        [&](const SeenRequest&) { return event_stream(spoken.events(kText, kUsage, {})).in_pieces(50); });
    auto model = made(model_at(server.url(), spoken.provider), http);
    std::string text;
    std::promise<ChatResult> done;
    ChatListener listener;
    listener.delta = [&](const ChatDelta& delta) {
      if (delta.kind == ChatDelta::Kind::text) text += delta.text;
    };
    listener.done = [&](ChatResult result) { done.set_value(std::move(result)); };
    model->ask(question("hello"), {}, std::move(listener));
    BOOST_TEST(done.get_future().get().has_value());
    BOOST_TEST(text == kText, spoken.provider);
  }
}

BOOST_AUTO_TEST_CASE(tool_calls_are_put_together_and_bad_arguments_are_values) {
  for (const Spoken& spoken : protocols()) {
    const std::vector<SaidCall> calls{{"c1", "compile", R"({"source": "int x;"})"},
                                      {"c2", "check", "{\"id\": 7"}};
    const ChatResult result = against(spoken, event_stream(spoken.events("", kUsage, calls)));
    BOOST_TEST_REQUIRE(result.has_value(), spoken.provider << ": " << words_of(result));
    BOOST_TEST((result->stop == StopReason::tool_calls));
    BOOST_TEST_REQUIRE(result->tool_calls.size() == 2U);
    BOOST_TEST(result->tool_calls[0].id == "c1");
    BOOST_TEST(result->tool_calls[0].name == "compile");
    BOOST_TEST(result->tool_calls[0].parsed().value().at("source") == "int x;");
    BOOST_TEST(result->tool_calls[1].arguments == "{\"id\": 7");
    BOOST_TEST(!result->tool_calls[1].parsed().has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_conversation_with_tools_is_sent_in_the_form_of_each_protocol) {
  for (const Spoken& spoken : protocols()) {
    ChatServer server([&](const SeenRequest&) {
      return event_stream(spoken.events("ok", kUsage, {{"c1", "compile", "{\"a\": 1}"}}));
    });
    const ModelConfig config = model_at(server.url(), spoken.provider);
    ChatRequest request = question("hello");
    request.tools.push_back({"compile", "Compiles.", {{"type", "object"}}});
    const ChatResult first = ask(config, request);
    BOOST_TEST_REQUIRE(first.has_value(), words_of(first));
    request.messages.push_back(first->as_message());
    ChatMessage result{ChatRole::tool, "it compiles"};
    result.tool_call_id = "c1";
    result.stable = true;
    request.messages.push_back(result);
    request.effort = Effort::high;
    BOOST_TEST(ask(config, request).has_value());
    const SeenRequest seen = server.seen().back();
    BOOST_TEST(seen.path == spoken.path);
    const json& body = seen.body;
    BOOST_TEST(body.at("model") == "model-x");
    BOOST_TEST(body.at("stream") == true);
    if (spoken.provider == std::string("openai")) {
      BOOST_TEST(seen.headers.at("authorization") == std::string("Bearer ") + kTestKey);
      BOOST_TEST(body.at("messages").size() == 4U);
      BOOST_TEST(body["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{\"a\":1}");
      BOOST_TEST(body["messages"][3]["tool_call_id"] == "c1");
      BOOST_TEST(body["stream_options"]["include_usage"] == true);
      BOOST_TEST(body["max_tokens"] == 1000);
      BOOST_TEST(body["reasoning_effort"] == "high");
    } else if (spoken.provider == std::string("openai_responses")) {
      BOOST_TEST(body["instructions"] == "You write kernels.");
      BOOST_TEST(body["store"] == false);
      BOOST_TEST(body["input"][1]["encrypted_content"] == "sealed");  // carried back
      BOOST_TEST(body["input"].back()["type"] == "function_call_output");
      BOOST_TEST(body["tools"][0]["name"] == "compile");
    } else {
      BOOST_TEST(seen.headers.at("x-api-key") == kTestKey);
      BOOST_TEST(seen.headers.contains("anthropic-version"));
      BOOST_TEST(body["system"][0]["cache_control"]["type"] == "ephemeral");
      BOOST_TEST(body["messages"][1]["content"][0]["signature"] == "signed");  // carried back
      BOOST_TEST(body["messages"][1]["content"][0]["thinking"] == "hm");
      BOOST_TEST(body["messages"][2]["content"][0]["type"] == "tool_result");
      BOOST_TEST(body["messages"][2]["content"][0]["cache_control"]["type"] == "ephemeral");
      BOOST_TEST(body["output_config"]["effort"] == "high");
    }
  }
}

BOOST_AUTO_TEST_CASE(extra_fields_are_added_to_the_body) {
  ChatServer server([](const SeenRequest&) { return event_stream(openai_events("ok", kUsage)); });
  ModelConfig config = model_at(server.url(), "openai");
  config.extra = {{"top_k", 40}, {"max_tokens", 5}};
  BOOST_TEST(ask(config).has_value());
  BOOST_TEST(server.seen()[0].body["top_k"] == 40);
  BOOST_TEST(server.seen()[0].body["max_tokens"] == 5);
}

BOOST_AUTO_TEST_CASE(a_status_is_an_error_of_its_kind_and_costs_nothing) {
  const std::vector<std::pair<int, Kind>> table{
      {400, Kind::bad_request},  {401, Kind::auth},       {402, Kind::out_of_credit}, {413, Kind::too_large},
      {429, Kind::rate_limited}, {500, Kind::overloaded}, {529, Kind::overloaded}};
  for (const Spoken& spoken : protocols())
    for (const auto& [status, kind] : table) {
      const ChatResult result = against(
          spoken, status_reply(status, R"({"error": {"type": "x", "message": "no, and here is why"}})"));
      CHECK_KIND(result, kind);
      BOOST_TEST(result.error().status == status);
      BOOST_TEST(result.error().usage.total() == 0);
      BOOST_TEST(result.error().message.find("here is why") != std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(retry_after_is_passed_on) {
  for (const Spoken& spoken : protocols()) {
    const auto told = [&](const std::vector<std::string>& headers) {
      return against(spoken, status_reply(429, "{}", headers)).error().retry_after_s;
    };
    BOOST_TEST(told({"Retry-After: 17"}).value() == 17.0);
    BOOST_TEST(told({"retry-after-ms: 250"}).value() == 0.25);
    BOOST_TEST(!told({}).has_value());
    const ChatResult ages = against(spoken, status_reply(429, "{}", {"Retry-After: 100000000000000000000"}));
    BOOST_TEST(ages.error().message.find("asks to wait several days") != std::string::npos,
               ages.error().message);
  }
}

BOOST_AUTO_TEST_CASE(a_key_that_the_server_repeats_is_in_no_message_and_no_answer) {
  for (const Spoken& spoken : protocols()) {
    const std::string echo = std::string("Incorrect API key provided: ") + kTestKey;
    const ChatResult refused = against(spoken, status_reply(401, json{{"error", {{"message", echo}}}}.dump(),
                                                            {std::string("x-request-id: ") + kTestKey}));
    CHECK_KIND(refused, Kind::auth);
    BOOST_TEST(refused.error().message.find(kTestKey) == std::string::npos);
    BOOST_TEST(refused.error().message.find("[key]") != std::string::npos);
    BOOST_TEST(refused.error().request_id.find(kTestKey) == std::string::npos);
    const ChatResult garbage = against(spoken, event_stream("data: not json, " + echo + "\n\n"));
    CHECK_KIND(garbage, Kind::garbage);
    BOOST_TEST(garbage.error().message.find(kTestKey) == std::string::npos);
    const ChatResult answered = against(spoken, event_stream(spoken.events(echo, kUsage, {})));
    BOOST_TEST_REQUIRE(answered.has_value());
    BOOST_TEST(to_record(*answered).dump().find(kTestKey) == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_redirect_is_not_followed) {
  ChatServer elsewhere([](const SeenRequest&) { return event_stream(openai_events("stolen", kUsage)); });
  const ChatResult result = against(
      protocols().front(), status_reply(307, "", {"Location: " + elsewhere.url() + "/chat/completions"}));
  CHECK_KIND(result, Kind::bad_request);
  BOOST_TEST(result.error().message.find(elsewhere.url()) != std::string::npos);
  BOOST_TEST(elsewhere.seen().empty());
}

BOOST_AUTO_TEST_CASE(an_address_without_a_server_is_unreachable) {
  for (const Spoken& spoken : protocols()) {
    ModelConfig config = model_at("http://127.0.0.1:9/v1", spoken.provider);  // the discard port
    const ChatResult result = ask(config);
    CHECK_KIND(result, Kind::unreachable);
    BOOST_TEST(result.error().usage.total() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_that_stalls_ends_after_the_idle_time) {
  for (const Spoken& spoken : protocols()) {
    Reply reply = event_stream(spoken.events(kText, kUsage, {}));
    reply.cut_after(reply.parts[0].bytes.size() + 300).stall();
    ChatResult result;
    const double took = seconds_of([&] { result = against(spoken, reply, {2, 5, 0.4, 20}); });
    CHECK_KIND(result, Kind::timeout_idle);
    BOOST_TEST(took < 3.0);
    BOOST_TEST(result.error().usage.input > 0);  // the provider has worked on it
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_says_nothing_ends_after_the_first_byte_time) {
  for (const Spoken& spoken : protocols()) {
    Reply silent;
    silent.stall();
    const ChatResult result = against(spoken, silent, {2, 0.3, 5, 20});
    CHECK_KIND(result, Kind::timeout_first_byte);
    BOOST_TEST(result.error().usage.estimated);
    Reply head_only = event_stream("");
    CHECK_KIND(against(spoken, head_only.stall(), {2, 0.3, 5, 20}), Kind::timeout_first_byte);
  }
}

BOOST_AUTO_TEST_CASE(a_body_that_drips_for_ever_ends_after_the_total_time) {
  for (const Spoken& spoken : protocols()) {
    Reply reply = event_stream(spoken.events(kText, kUsage, {}));
    reply.in_pieces(4, 0.05);
    CHECK_KIND(against(spoken, reply, {2, 5, 5, 0.8}), Kind::timeout_total);
  }
}

BOOST_AUTO_TEST_CASE(a_slow_body_is_an_answer_all_the_same) {
  for (const Spoken& spoken : protocols()) {
    Reply reply = event_stream(spoken.events("slowly does it", kUsage, {}));
    reply.in_pieces(300, 0.1);
    const ChatResult result = against(spoken, reply, {2, 2, 1, 20});
    BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
    BOOST_TEST(result->text == "slowly does it");
  }
}

BOOST_AUTO_TEST_CASE(a_stream_that_is_cut_anywhere_is_never_an_answer) {
  for (const Spoken& spoken : protocols()) {
    const std::string events = spoken.events("some words of text here", kUsage, {});
    // Up to where the protocol says that the answer is complete.
    const std::size_t end =
        spoken.provider == std::string("openai")      ? events.find("\"finish_reason\":\"stop\"")
        : spoken.provider == std::string("anthropic") ? events.find("event: message_stop")
                                                      : events.find("event: response.completed");
    BOOST_TEST_REQUIRE(end != std::string::npos);
    int number = 0;
    for (std::size_t at = 0; at < end; at += 83) {
      const bool reset = ++number % 2 == 0;
      Reply reply = event_stream(events.substr(0, at));
      if (reset) reply.reset();
      const ChatResult result = against(spoken, reply);
      BOOST_TEST_REQUIRE(!result.has_value(), spoken.provider << " cut at " << at);
      const Kind kind = result.error().kind;
      BOOST_TEST((kind == Kind::cut_off || kind == Kind::garbage),
                 spoken.provider << " at " << at << ": " << words_of(result));
      if (kind == Kind::garbage) BOOST_TEST(at < 200U);  // nothing of an answer was seen
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_cut_stream_cost_is_known_from_what_it_said) {
  const std::string events = anthropic_events(std::string(400, 'w'), kUsage);
  Reply reply = event_stream(events.substr(0, events.find("event: message_delta")));
  const ChatResult result = against(protocols().back(), reply);
  CHECK_KIND(result, Kind::cut_off);
  BOOST_TEST(result.error().usage.input == 100);
  BOOST_TEST(result.error().usage.cached == 40);
  BOOST_TEST(result.error().usage.output == (400 + 2 + 3) / 4);  // text and thought, four bytes a token
  BOOST_TEST(result.error().usage.estimated);
}

BOOST_AUTO_TEST_CASE(garbage_is_garbage) {
  for (const Spoken& spoken : protocols()) {
    CHECK_KIND(against(spoken, event_stream("data: {\"type\": \n\n")), Kind::garbage);
    CHECK_KIND(against(spoken, event_stream("data: [1, 2]\n\n")), Kind::garbage);
    CHECK_KIND(
        against(
            spoken,
            event_stream(
                "data: {\"type\": \"content_block_delta\", \"index\": 9, \"choices\": 7, \"delta\": 3}\n\n")),
        Kind::garbage);
    CHECK_KIND(against(spoken, event_stream("<html>It works!</html>")), Kind::garbage);
    CHECK_KIND(against(spoken, status_reply(200, "no JSON at all")), Kind::garbage);
    CHECK_KIND(against(spoken, status_reply(200, "{\"hello\": 1}")), Kind::garbage);
    Reply nonsense;
    CHECK_KIND(against(spoken, nonsense.then("SSH-2.0-OpenSSH_9.2\r\n")), Kind::garbage);
  }
}

BOOST_AUTO_TEST_CASE(an_error_in_the_middle_of_a_stream_has_its_kind) {
  const std::string anthropic = anthropic_events("text", kUsage);
  CHECK_KIND(
      against(protocols()[2], event_stream(anthropic.substr(0, anthropic.find("event: message_delta")) +
                                           "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": "
                                           "\"overloaded_error\", \"message\": \"Overloaded\"}}\n\n")),
      Kind::overloaded);
  CHECK_KIND(
      against(
          protocols()[0],
          event_stream("data: {\"error\": {\"code\": \"rate_limit_exceeded\", \"message\": \"slow\"}}\n\n")),
      Kind::rate_limited);
  CHECK_KIND(
      against(protocols()[1],
              event_stream("data: {\"type\": \"response.failed\", \"response\": {\"status\": \"failed\", "
                           "\"error\": {\"code\": \"server_error\", \"message\": \"oops\"}}}\n\n")),
      Kind::overloaded);
}

BOOST_AUTO_TEST_CASE(a_model_that_declines_is_refused_and_paid) {
  const ChatResult filtered =
      against(protocols()[0], event_stream(openai_events("", kUsage, {}, "content_filter")));
  CHECK_KIND(filtered, Kind::refused);
  const ChatResult declined =
      against(protocols()[2], event_stream(anthropic_events("", kUsage, {}, "refusal")));
  CHECK_KIND(declined, Kind::refused);
  BOOST_TEST(declined.error().usage.output == 25);
}

BOOST_AUTO_TEST_CASE(an_answer_cut_by_the_token_limit_says_so) {
  BOOST_TEST((against(protocols()[0], event_stream(openai_events("x", kUsage, {}, "length")))->stop ==
              StopReason::length));
  BOOST_TEST((against(protocols()[2], event_stream(anthropic_events("x", kUsage, {}, "max_tokens")))->stop ==
              StopReason::length));
}

BOOST_AUTO_TEST_CASE(a_huge_answer_is_given_up_at_the_bound) {
  ChatServer server([](const SeenRequest&) {
    Reply reply = event_stream("");
    const std::string chunk =
        "data: {\"choices\": [{\"delta\": {\"content\": \"" + std::string(65536, 'x') + "\"}}]}\n\n";
    for (int i = 0; i < 200; ++i) reply.then(chunk);
    return reply;
  });
  const ChatResult result = ask(model_at(server.url(), "openai"));  // 13 MB against 8 MiB
  CHECK_KIND(result, Kind::too_large);
  ChatServer endless([](const SeenRequest&) {
    Reply reply = event_stream("data: ");
    for (int i = 0; i < 200; ++i) reply.then(std::string(65536, 'x'));
    return reply;
  });
  for (const Spoken& spoken : protocols())
    CHECK_KIND(ask(model_at(endless.url(), spoken.provider)), Kind::too_large);
}

BOOST_AUTO_TEST_CASE(a_huge_error_page_is_cut_in_the_message) {
  const ChatResult result = against(protocols()[0], status_reply(503, std::string(3 << 20, 'e')));
  CHECK_KIND(result, Kind::overloaded);
  BOOST_TEST(result.error().message.size() < 600U);
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_not_streamed_is_read_too) {
  const json openai{
      {"model", "gpt-test-2"},
      {"choices", json::array({{{"message", {{"content", "plain"}}}, {"finish_reason", "stop"}}})},
      {"usage", {{"prompt_tokens", 3}, {"completion_tokens", 2}}}};
  const json anthropic{{"type", "message"},
                       {"model", "c"},
                       {"stop_reason", "end_turn"},
                       {"content", json::array({{{"type", "text"}, {"text", "plain"}}})},
                       {"usage", {{"input_tokens", 3}, {"output_tokens", 2}}}};
  for (const auto& [spoken, body] :
       {std::pair(protocols()[0], openai), std::pair(protocols()[2], anthropic)}) {
    const ChatResult result = against(spoken, status_reply(200, body.dump()));
    BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
    BOOST_TEST(result->text == "plain");
    BOOST_TEST(result->usage.total() == 5);
  }
}

BOOST_AUTO_TEST_CASE(usage_that_the_server_leaves_out_is_estimated) {
  std::string events = openai_events("four words of text.", kUsage);
  const std::size_t at = events.find("data: {\"choices\":[],");
  events.erase(at, events.find("data: [DONE]") - at);
  const ChatResult result = against(protocols()[0], event_stream(events));
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->usage.estimated);
  BOOST_TEST(result->usage.output == 5);
  BOOST_TEST(result->usage.input > 0);
}

BOOST_AUTO_TEST_CASE(stopping_ends_a_call_within_moments_and_exactly_once) {
  for (const Spoken& spoken : protocols()) {
    Reply reply = event_stream(spoken.events(kText, kUsage, {}));
    reply.cut_after(reply.parts[0].bytes.size() + 300).stall();
    ChatServer server([&](const SeenRequest&) { return reply; });
    auto model = made(model_at(server.url(), spoken.provider), http);
    std::stop_source stop;
    std::atomic<int> times = 0;
    std::promise<ChatResult> done;
    ChatListener listener;
    listener.done = [&](ChatResult result) {
      if (++times == 1) done.set_value(std::move(result));
    };
    model->ask(question("hello"), stop.get_token(), std::move(listener));
    auto result = done.get_future();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double took = seconds_of([&] {
      stop.request_stop();
      CHECK_KIND(result.get(), Kind::cancelled);
    });
    BOOST_TEST(took < 1.0);
    model.reset();
    BOOST_TEST(times.load() == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_that_came_before_the_call_is_seen_too) {
  ChatServer server([](const SeenRequest&) { return Reply().stall(); });
  std::stop_source stop;
  stop.request_stop();
  CHECK_KIND(ask(model_at(server.url(), "openai"), question("hello"), stop.get_token()), Kind::cancelled);
}

BOOST_AUTO_TEST_CASE(a_model_that_goes_takes_its_calls_with_it) {
  ChatServer server([](const SeenRequest&) { return Reply().stall(); });
  std::atomic<int> cancelled = 0;
  {
    auto model = made(model_at(server.url(), "openai"), http);
    for (int i = 0; i < 20; ++i) {
      ChatListener listener;
      listener.done = [&](ChatResult result) {
        if (!result && result.error().kind == Kind::cancelled) ++cancelled;
      };
      model->ask(question("hello"), {}, std::move(listener));
    }
  }
  BOOST_TEST(cancelled.load() == 20);
}

BOOST_AUTO_TEST_CASE(what_a_protocol_cannot_express_is_rejected_and_not_omitted) {
  ChatServer server([](const SeenRequest&) { return event_stream(responses_events("x", kUsage)); });
  ChatRequest request = question("hello");
  request.stop = {"END"};
  CHECK_KIND(ask(model_at(server.url(), "openai_responses"), request), Kind::bad_request);
  BOOST_TEST(server.seen().empty());
}

BOOST_AUTO_TEST_SUITE_END()
