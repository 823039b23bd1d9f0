// SPDX-License-Identifier: Apache-2.0
// Limits on the cost of all models together and on concurrent cost: budget limits, the provider's limits,
// calls in flight.
#include "operators/llm/chat_service.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>

#include "operators/llm/ledger.hpp"
#include "support/chat_services.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;

BOOST_FIXTURE_TEST_SUITE(chat_limits, Service)

BOOST_AUTO_TEST_CASE(a_hard_cap_is_never_passed_by_calls_in_flight) {
  ChatServer server([](const SeenRequest&) { return good().in_pieces(400, 0.02); });
  add("a", server.url());
  const double most = configs[0].prices.usd_of(most_of(question("0"))) * 1.5;  // with dearer cache writes
  caps.run.usd = 2.5 * most;  // two at once, whatever they cost in the end
  start();
  std::vector<std::future<ServedResult>> results;
  for (int i = 0; i < 12; ++i)
    results.push_back(std::async(std::launch::async, [this, i] { return ask(std::to_string(i)); }));
  double seen_most = 0.0;
  int answered = 0, refused = 0;
  for (auto& result : results) {
    while (result.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
      const ChatServiceState state = service->state();
      seen_most = std::max(seen_most, state.spent.usd + state.reserved_usd);
    }
    const ServedResult one = result.get();
    if (one)
      ++answered;
    else if (one.error().kind == Kind::over_budget)
      ++refused;
  }
  BOOST_TEST(answered + refused == 12);
  BOOST_TEST(answered == 12);  // they cost far less than they reserve, so all fit, two or three at a time
  BOOST_TEST(seen_most <= *caps.run.usd * (1 + 1e-9));
  service.reset();
  caps.run.usd = 0.5 * kUsd;
  start();
  const ServedResult none = ask("another");
  BOOST_TEST_REQUIRE(!none.has_value());
  BOOST_TEST((none.error().kind == Kind::over_budget));
}

BOOST_AUTO_TEST_CASE(a_tokenizer_that_makes_more_of_a_prompt_than_expected_is_reckoned_with_from_then_on) {
  // A token a byte is what tiny vocabularies come to.
  ChatServer server([](const SeenRequest&) { return event_stream(openai_events("x", {1000, 0, 0, 1, 0})); });
  add("a", server.url()).max_output_tokens = 10;
  caps.run.tokens = 3700;
  start();
  const std::string text(970, 'p');
  int answered = 0;
  for (int i = 0; i < 6; ++i) answered += ask(text + std::to_string(i)).has_value();
  BOOST_TEST(answered == 3);  // a fourth was expected to fit by its bytes, and would not
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  BOOST_TEST(service->state().spent.usage.total() <= 3700);
}

BOOST_AUTO_TEST_CASE(impossible_usage_figures_cost_no_more_than_was_reserved_and_are_reported) {
  ChatServer server([](const SeenRequest&) {
    return event_stream(openai_events("x", {1'000'000'000, 0, 0, 1'000'000, 0}));
  });
  add("a", server.url());
  start();
  BOOST_TEST_REQUIRE(ask().has_value());
  service.reset();
  BOOST_TEST(log.rows[0].answer->usage.output == log.rows[0].sent.reserved.output);
  BOOST_TEST(log.rows[0].answer->usage.total() == log.rows[0].sent.reserved.total());
  BOOST_TEST(log.rows[0].usd <= log.rows[0].sent.reserved_usd);
  BOOST_TEST(log.rows[0].answer->not_believed.find(
                 "the provider reported 1000000 output tokens for a call limited to 1000") !=
             std::string::npos);
  BOOST_TEST(told("which is implausible; the most that was expected is counted instead"));
  const BelievedCost dear = believed({10, 0, 0, 10}, 99.0, {{100, 0, 0, 1000}, 0.09, 40});
  BOOST_TEST(dear.usd.value() == 1.1);
  BOOST_TEST(dear.not_believed ==
             "the provider reported 99.0000 USD for a call that can cost at most 1.1000");
  BOOST_TEST(believed({10, 0, 0, 10}, 99.0, {{100, 0, 0, 1000}, 0.0, 40}).usd.value() < 2.0);  // no prices
  const BelievedCost fair = believed({20'000, 0, 0, 900}, 0.05, {{100, 0, 0, 1000}, 0.09, 40});
  BOOST_TEST(fair.not_believed == "");
  BOOST_TEST(fair.usage.input == 20'000);
  const BelievedCost more = believed({10, 0, 0, 5000}, 0.5, {{100, 0, 0, 1000}, 0.09, 40});
  BOOST_TEST(more.not_believed == "");
  BOOST_TEST(more.usage.output == 5000);  // some servers do not apply the limit
  BOOST_TEST(more.usd.value() == 0.5);
}

BOOST_AUTO_TEST_CASE(a_model_over_its_cap_passes_the_call_to_its_fallback) {
  ChatServer server([](const SeenRequest&) { return good(); });
  ModelConfig& dear = add("a", server.url());
  dear.cap.usd = 0.0;
  dear.fallbacks = {"b"};
  add("b", server.url());
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->model == "b");
}

BOOST_AUTO_TEST_CASE(limits_of_the_provider_are_kept) {
  ChatServer server([](const SeenRequest&) { return good(); });
  ModelConfig& config = add("a", server.url());
  config.limits.requests = 40.0;  // the bucket holds a minute's worth, so it is emptied first
  start();
  std::vector<std::future<ServedResult>> results;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 41; ++i)
    results.push_back(std::async(std::launch::async, [this, i] { return ask(std::to_string(i)); }));
  for (auto& result : results) BOOST_TEST(result.get().has_value());
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() > 1.4);
}

BOOST_AUTO_TEST_CASE(no_more_calls_are_in_flight_than_a_model_allows) {
  std::atomic<int> now = 0, most = 0;
  ChatServer server([](const SeenRequest&) { return good().in_pieces(500, 0.03); });
  add("a", server.url()).limits.in_flight = 3;
  start();
  std::vector<std::future<ServedResult>> results;
  for (int i = 0; i < 12; ++i)
    results.push_back(std::async(std::launch::async, [this, i] { return ask(std::to_string(i)); }));
  while (soon([&] { return service->state().in_flight + service->state().waiting > 0; }, 0.2))
    most = std::max(most.load(), service->state().in_flight);
  for (auto& result : results) BOOST_TEST(result.get().has_value());
  BOOST_TEST(most.load() == 3);
}

BOOST_AUTO_TEST_SUITE_END()
