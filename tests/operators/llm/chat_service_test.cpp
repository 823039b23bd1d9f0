// SPDX-License-Identifier: Apache-2.0
// All models behind their policy, against a real server: for every fault the right behaviour and an exact
// ledger.
#include "operators/llm/chat_service.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>

#include "support/chat_services.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;

BOOST_FIXTURE_TEST_SUITE(chat_service, Service)

BOOST_AUTO_TEST_CASE(an_answer_is_recorded_and_paid_to_the_last_cent) {
  ChatServer server([](const SeenRequest&) { return good(); });
  add("a", server.url());
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->answer.text == "fine");
  BOOST_TEST(result->model == "a");
  BOOST_TEST(near(result->usd, kUsd));
  BOOST_TEST(!result->from_record);
  BOOST_TEST_REQUIRE(log.rows.size() == 1U);
  BOOST_TEST(log.rows[0].answer->text == "fine");
  BOOST_TEST(near(log.rows[0].usd, kUsd));
  BOOST_TEST(log.rows[0].sent.reserved_usd > kUsd);
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  const ChatServiceState state = service->state();
  BOOST_TEST(near(state.spent.usd, kUsd));
  BOOST_TEST(state.spent.usage.cached == 40);
  BOOST_TEST(state.reserved_usd == 0.0);
  BOOST_TEST(state.paused == "");
}

BOOST_AUTO_TEST_CASE(a_call_that_was_answered_before_is_not_paid_again) {
  ChatServer server([](const SeenRequest&) { return good(); });
  add("a", server.url());
  start();
  BOOST_TEST(ask().has_value());
  start();  // another session with the same log
  const ServedResult again = ask();
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->from_record);
  BOOST_TEST(again->answer.text == "fine");
  BOOST_TEST(server.seen().size() == 1U);
}

BOOST_AUTO_TEST_CASE(faults_are_tried_again_and_cost_what_they_cost) {
  const std::string whole = openai_events(std::string(400, 'w'), kUsage);
  const std::vector<std::pair<std::string, Reply>> faults{
      {"500", status_reply(500, "{}")},
      {"529", status_reply(529, "{}")},
      {"garbage", event_stream("data: {{{\n\n")},
      {"cut", event_stream(whole.substr(0, whole.find("\"finish_reason\":\"stop\"")))},
  };
  for (const auto& [name, reply] : faults) {
    log.rows.clear();
    configs.clear();
    ChatServer server(
        [&reply = reply](const SeenRequest& seen) { return seen.number <= 2 ? reply : good(); });
    add("a", server.url());
    start();
    const ServedResult result = ask();
    BOOST_TEST_REQUIRE(result.has_value(), name << ": " << words_of(result));
    BOOST_TEST(server.seen().size() == 3U);
    BOOST_TEST(log.rows.size() == 3U);
    BOOST_TEST(log.rows[2].sent.attempt == 3);
    BOOST_TEST(soon([&] { return service->state().spent.calls == 3; }));
    const Spent spent = service->state().spent;
    BOOST_TEST(spent.failed == 2);
    double failed = 0.0;
    if (name == "cut" || name == "garbage") {  // input by its bytes, output by what arrived
      Usage estimate;
      estimate.input = estimated_tokens(bytes_of(question("hello")));
      estimate.output = name == "cut" ? 100 : 1;
      failed = configs[0].prices.usd_of(estimate);
    }
    BOOST_TEST(near(spent.usd, kUsd + 2 * failed), name << ": " << spent.usd << " " << kUsd + 2 * failed);
    BOOST_TEST(near(spent.uncertain_usd, 2 * failed));
    service.reset();
  }
}

BOOST_AUTO_TEST_CASE(every_fault_in_every_protocol_is_paid_as_recorded_and_followed_by_the_answer) {
  struct Fault {
    std::string name;
    std::function<Reply(const std::string& some)> reply;  // `some`: the events of an answer
    bool costs, burns;                                    // the provider has worked; an attempt is spent
  };
  const auto status = [](int code, const std::vector<std::string>& headers = {}) {
    return [=](const std::string&) { return status_reply(code, "{}", headers); };
  };
  const std::vector<Fault> faults{
      {"429 in 0.1 s", status(429, {"Retry-After: 0.1"}), false, false},
      {"429", status(429), false, false},
      {"402", status(402), false, false},
      {"500", status(500), false, true},
      {"529", status(529), false, true},
      {"stall", [](const std::string& some) { return event_stream(some.substr(0, 400)).stall(); }, true,
       true},
      {"cut", [](const std::string& some) { return event_stream(some.substr(0, 400)); }, true, true},
      {"reset", [](const std::string& some) { return event_stream(some.substr(0, 400)).reset(); }, true,
       true},
      {"garbage", [](const std::string&) { return event_stream("data: {{{\n\n"); }, true, true},
      {"wrong JSON", [](const std::string&) { return status_reply(200, R"({"answer": [1]})"); }, true, true},
      {"silence", [](const std::string&) { return Reply().stall(); }, true, true},
  };
  for (const Spoken& spoken : protocols())
    for (const Fault& fault : faults) {
      const std::string which = spoken.provider + (": " + fault.name);
      log.rows.clear();
      configs.clear();
      const std::string some = spoken.events("words of an answer that are cut", kUsage, {});
      ChatServer server([&](const SeenRequest& seen) {
        if (seen.number <= 2) return fault.reply(some);
        return event_stream(spoken.events("fine", kUsage, {})).in_pieces(100, 0.005);  // slowly
      });
      ModelConfig& config = add("a", server.url());
      config.provider = spoken.provider;
      config.timeouts = {2.0, 0.5, 0.5, 20.0};
      config.retry.first_wait_s = 0.02;
      config.retry.attempts = fault.burns ? 3 : 1;
      start();
      const ServedResult result = ask();
      BOOST_TEST_REQUIRE(result.has_value(), which << ": " << words_of(result));
      BOOST_TEST(result->answer.text == "fine");
      BOOST_TEST(server.seen().size() == 3U, which);
      BOOST_TEST_REQUIRE(log.rows.size() == 3U, which);
      BOOST_TEST(log.rows[2].sent.attempt == (fault.burns ? 3 : 1), which);
      double lost = 0.0;
      for (std::size_t i = 0; i < 2; ++i) {
        BOOST_TEST((log.rows[i].usd > 0.0) == fault.costs, which);
        lost += log.rows[i].usd;
      }
      const double uncached = spoken.provider == std::string("anthropic") ? 100 : 60;
      BOOST_TEST(near(result->usd, 1e-6 * (uncached * 2.0 + 40 * 0.2 + 25 * 10.0)), which);
      BOOST_TEST(soon([&] { return service->state().spent.calls == 3; }), which);
      const ChatServiceState state = service->state();
      BOOST_TEST(state.spent.failed == 2, which);
      BOOST_TEST(near(state.spent.usd, result->usd + lost), which);
      BOOST_TEST(near(state.spent.uncertain_usd, lost), which);
      BOOST_TEST(state.reserved_usd == 0.0, which);
      service.reset();
    }
}

BOOST_AUTO_TEST_CASE(attempts_are_bounded) {
  ChatServer server([](const SeenRequest&) { return status_reply(500, "{}"); });
  add("a", server.url()).retry.attempts = 3;
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == Kind::overloaded));
  BOOST_TEST(server.seen().size() == 3U);
}

BOOST_AUTO_TEST_CASE(what_would_fail_again_is_not_tried_again) {
  for (const int status : {400, 401, 413}) {
    configs.clear();
    ChatServer server([status](const SeenRequest&) { return status_reply(status, "{}"); });
    add("a", server.url());
    start();
    BOOST_TEST(!ask().has_value());
    BOOST_TEST(server.seen().size() == 1U, status);
    service.reset();
  }
}

BOOST_AUTO_TEST_CASE(a_429_waits_as_long_as_requested_and_uses_no_attempt) {
  using Steady = std::chrono::steady_clock;
  std::vector<Steady::time_point> times;
  ChatServer server([&](const SeenRequest& seen) {
    times.push_back(Steady::now());
    return seen.number <= 3 ? status_reply(429, "{}", {"Retry-After: 0.4"}) : good();
  });
  ModelConfig& config = add("a", server.url());
  config.retry.attempts = 1;  // not even one of them is burnt
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  server.stop();
  BOOST_TEST_REQUIRE(times.size() == 4U);
  for (std::size_t i = 1; i < times.size(); ++i)
    BOOST_TEST(std::chrono::duration<double>(times[i] - times[i - 1]).count() >= 0.39);
  BOOST_TEST(told("model a is on hold"));
  BOOST_TEST(told("no language model is available"));
  BOOST_TEST(told("a language model is available again"));
  BOOST_TEST(near(result->usd, kUsd));
}

BOOST_AUTO_TEST_CASE(a_429_without_a_word_on_when_backs_off) {
  ChatServer server(
      [](const SeenRequest& seen) { return seen.number <= 4 ? status_reply(429, "{}") : good(); });
  add("a", server.url()).retry.attempts = 1;
  start();
  BOOST_TEST(ask().has_value());
  BOOST_TEST(server.seen().size() == 5U);
}

BOOST_AUTO_TEST_CASE(without_credit_the_search_pauses_and_continues_by_itself) {
  std::atomic<bool> paid = false;
  ChatServer server([&](const SeenRequest&) { return paid ? good() : status_reply(402, "{}"); });
  add("a", server.url()).retry.first_wait_s = 0.02;
  start();
  auto result = std::async(std::launch::async, [&] { return ask(); });
  BOOST_TEST(soon([&] { return service->state().paused.find("out_of_credit") != std::string::npos; }));
  BOOST_TEST(service->state().waiting == 1);
  paid = true;
  BOOST_TEST(result.get().has_value());
  BOOST_TEST(service->state().paused == "");
}

BOOST_AUTO_TEST_CASE(a_waiting_call_can_be_stopped) {
  ChatServer server([](const SeenRequest&) { return status_reply(402, "{}"); });
  add("a", server.url());
  start();
  std::stop_source stop;
  auto result = std::async(std::launch::async, [&] { return ask("hello", "a", stop.get_token()); });
  BOOST_TEST(soon([&] { return service->state().waiting == 1 && !service->state().paused.empty(); }));
  stop.request_stop();
  const ServedResult stopped = result.get();
  BOOST_TEST_REQUIRE(!stopped.has_value());
  BOOST_TEST((stopped.error().kind == Kind::cancelled));
}

BOOST_AUTO_TEST_CASE(patience_ends) {
  ChatServer server([](const SeenRequest&) { return status_reply(402, "{}"); });
  ModelConfig& config = add("a", server.url());
  config.retry.patience_s = 0.4;
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == Kind::gave_up));
  BOOST_TEST(result.error().message.find("out_of_credit") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(fallbacks_answer_in_their_order) {
  ChatServer broken([](const SeenRequest&) { return status_reply(400, "{}"); });
  ChatServer second([](const SeenRequest&) { return good("from the third"); });
  add("a", broken.url()).fallbacks = {"b", "c"};
  add("b", broken.url());
  add("c", second.url());
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->model == "c");
  BOOST_TEST_REQUIRE(log.rows.size() == 3U);
  BOOST_TEST(log.rows[0].sent.model == "a");
  BOOST_TEST(log.rows[1].sent.model == "b");
}

BOOST_AUTO_TEST_CASE(a_model_that_is_held_for_long_is_passed_over) {
  ChatServer busy([](const SeenRequest&) { return status_reply(429, "{}", {"Retry-After: 3600"}); });
  ChatServer other([](const SeenRequest&) { return good(); });
  add("a", busy.url()).fallbacks = {"b"};
  add("b", other.url());
  start();
  for (int i = 0; i < 5; ++i) BOOST_TEST(ask(std::to_string(i))->model == "b");
  BOOST_TEST(busy.seen().size() == 1U);
  BOOST_TEST(service->state().paused == "");
  BOOST_TEST((service->state().models[0].kind == ModelState::Kind::held));
}

BOOST_AUTO_TEST_CASE(the_breaker_keeps_calls_from_a_dead_server_and_closes_by_itself) {
  std::atomic<bool> up = false;
  ChatServer server([&](const SeenRequest&) { return up ? good() : status_reply(503, "{}"); });
  ModelConfig& config = add("a", server.url());
  config.retry.attempts = 100;
  config.retry.breaker_failures = 3;
  config.retry.breaker_rest_s = 0.6;
  start();
  std::vector<std::future<ServedResult>> results;
  for (int i = 0; i < 8; ++i)
    results.push_back(std::async(std::launch::async, [this, i] { return ask(std::to_string(i)); }));
  BOOST_TEST(soon([&] { return !service->state().paused.empty(); }));
  const std::size_t before = server.seen().size();
  BOOST_TEST(before <= 3U + 8U);  // those that were on their way
  up = true;
  for (auto& result : results) BOOST_TEST(result.get().has_value());
  BOOST_TEST(told("model a is paused after 3 failures"));
  BOOST_TEST(told("model a is available again"));
}

BOOST_AUTO_TEST_CASE(an_answer_that_cannot_be_recorded_is_not_used) {
  ChatServer server([](const SeenRequest&) { return good(); });
  add("a", server.url());
  log.refuse_answers = true;
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == Kind::not_recorded));
  BOOST_TEST(result.error().message.find("the disk is full") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_service_that_ends_answers_everybody) {
  ChatServer server([](const SeenRequest&) { return Reply().stall(); });
  add("a", server.url()).limits.in_flight = 5;
  start();
  std::vector<std::future<ServedResult>> results;
  for (int i = 0; i < 10; ++i) {
    auto promise = std::make_shared<std::promise<ServedResult>>();
    results.push_back(promise->get_future());
    ServedListener listener;
    listener.done = [promise](ServedResult result) { promise->set_value(std::move(result)); };
    service->ask({"mutate", "a", question(std::to_string(i))}, {}, std::move(listener));
  }
  BOOST_TEST(soon([&] { return service->state().in_flight == 5; }));
  service.reset();
  for (auto& result : results) BOOST_TEST((result.get().error().kind == Kind::cancelled));
  BOOST_TEST(log.rows.size() == 5U);
  for (const MemoryLog::Row& row : log.rows) BOOST_TEST(row.error.has_value());
}

BOOST_AUTO_TEST_CASE(no_key_gets_into_the_record) {
  ChatServer server([](const SeenRequest&) {
    return status_reply(400, std::string("{\"error\": {\"message\": \"") + kTestKey + "\"}}");
  });
  add("a", server.url());
  start();
  BOOST_TEST(!ask().has_value());
  BOOST_TEST(log.rows[0].error->message.find(kTestKey) == std::string::npos);
  BOOST_TEST(to_record(log.rows[0].sent.request).dump().find(kTestKey) == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
