// SPDX-License-Identifier: Apache-2.0
// What is said of a cost is counted, whether the answer can be used or not; what was rejected before any work
// costs nothing; an answer of which nothing is said costs its estimate. A budget holds in all cases.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>

#include "operators/llm/command.hpp"
#include "support/chat_services.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

const json kOpenAiUsage{
    {"prompt_tokens", 100}, {"completion_tokens", 25}, {"prompt_tokens_details", {{"cached_tokens", 40}}}};
const json kAnthropicUsage{{"input_tokens", 100}, {"cache_read_input_tokens", 40}, {"output_tokens", 25}};
const json kRateLimit{{"message", "Rate limit exceeded"}, {"code", 429}};

std::string data(const json& value) {
  return "data: " + value.dump() + "\n\n";
}

struct Played {
  std::string name;
  Reply reply;
  enum class Cost { none, said, estimate } cost;
};

// All that a server of this protocol may answer.
std::vector<Played> played(const Spoken& spoken) {
  using Cost = Played::Cost;
  const std::string provider = spoken.provider;
  const std::string good = spoken.events("a fine answer", kUsage, {});
  std::vector<Played> all{{"good", event_stream(good), Cost::said},
                          {"HTTP 500", status_reply(500, "{}"), Cost::none},
                          {"nothing readable", status_reply(200, "{\"answer\": [1]}"), Cost::estimate},
                          {"cut", event_stream(good.substr(0, good.size() / 3)), Cost::estimate}};
  if (provider == "openai") {
    const json usage{{"usage", kOpenAiUsage}};
    const auto body = [&](const json& more) {
      json whole = usage;
      whole.update(more);
      return status_reply(200, whole.dump());
    };
    all.push_back({"rate limit", status_reply(200, json{{"error", kRateLimit}}.dump()), Cost::none});
    all.push_back({"error first", event_stream(data({{"error", kRateLimit}})), Cost::none});
    all.push_back({"error with usage", body({{"error", kRateLimit}}), Cost::said});
    all.push_back({"unreadable with usage", body({{"choices", 7}}), Cost::said});
    all.push_back({"HTTP 400 with usage", status_reply(400, usage.dump()), Cost::said});
    all.push_back({"filtered", event_stream(openai_events("", kUsage, {}, "content_filter")), Cost::said});
    all.push_back({"blank", event_stream(openai_events("\n", kUsage)), Cost::said});
    all.push_back({"no usage",
                   status_reply(200, R"({"choices": [{"message": {"content": "four words of text"},
                                          "finish_reason": "stop"}], "usage": {}})"),
                   Cost::estimate});
  } else if (provider == "anthropic") {
    const json error{{"type", "error"}, {"error", {{"type", "rate_limit_error"}, {"message", "slow down"}}}};
    all.push_back({"rate limit", status_reply(200, error.dump()), Cost::none});
    all.push_back({"error first", event_stream(data(error)), Cost::none});
    all.push_back(
        {"unreadable with usage",
         status_reply(200, json{{"type", "message"}, {"content", 7}, {"usage", kAnthropicUsage}}.dump()),
         Cost::said});
    all.push_back({"declined", event_stream(anthropic_events("", kUsage, {}, "refusal")), Cost::said});
    all.push_back({"blank", event_stream(anthropic_events("\n\n", kUsage)), Cost::said});
  } else {
    const json error{{"code", "rate_limit_exceeded"}, {"message", "slow down"}};
    const json failed{{"status", "failed"}, {"error", error}};
    json paid = failed;
    paid["usage"] = {
        {"input_tokens", 100}, {"input_tokens_details", {{"cached_tokens", 40}}}, {"output_tokens", 25}};
    all.push_back({"rate limit", status_reply(200, failed.dump()), Cost::none});
    all.push_back(
        {"error first", event_stream(data({{"type", "response.failed"}, {"response", failed}})), Cost::none});
    all.push_back({"failed with usage", event_stream(data({{"type", "response.failed"}, {"response", paid}})),
                   Cost::said});
  }
  return all;
}

struct Paid : Service, TemporaryFolder {
  // Asks until the budget forbids it; returns how many calls were asked.
  int spend(int at_once) {
    std::atomic<int> asked = 0;
    std::vector<std::future<void>> askers;
    for (int i = 0; i < at_once; ++i)
      askers.push_back(std::async(std::launch::async, [&] {
        while (asked < 500) {
          const ServedResult result = ask("question " + std::to_string(++asked));
          if (!result && result.error().kind == ChatError::Kind::over_budget) return;
        }
      }));
    for (auto& asker : askers) asker.get();
    return asked;
  }
  ModelConfig& add_program(const std::string& text) {
    const auto file = path() / "model.sh";
    write_text(file, "#!/bin/bash\n" + text, true);
    ModelConfig& config = add("a", "");
    config.provider = "command";
    config.command = {file.string()};
    config.answer = "claude_json";
    config.timeouts = {5, 5, 5, 10};
    return config;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(paid_answers, Paid)

BOOST_AUTO_TEST_CASE(each_reply_costs_what_is_said_of_it) {
  for (const Spoken& spoken : protocols())
    for (const Played& one : played(spoken)) {
      const std::string which = spoken.provider + (": " + one.name);
      ChatServer server([&](const SeenRequest&) { return one.reply; });
      const ChatRequest request = question("hello");
      const ChatResult result = ask_and_wait(*made(model_at(server.url(), spoken.provider), http), request);
      const Usage usage = result ? result->usage : result.error().usage;
      if (one.cost == Played::Cost::none) BOOST_TEST(usage.total() == 0, which);
      if (one.cost == Played::Cost::said) {
        BOOST_TEST(usage.input + usage.cached == (spoken.provider == std::string("anthropic") ? 140 : 100),
                   which);
        BOOST_TEST(usage.cached == 40, which);
        BOOST_TEST(usage.output == 25, which);
      }
      if (one.cost == Played::Cost::estimate) {
        BOOST_TEST(usage.estimated, which);
        BOOST_TEST(usage.input >= estimated_tokens(bytes_of(request)), which);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_budget_in_usd_holds_whatever_the_server_answers) {
  for (const Spoken& spoken : protocols()) {
    log.rows.clear();
    configs.clear();
    const std::vector<Played> all = played(spoken);
    double paid = 0.0;  // what the provider asks for
    ChatServer server([&](const SeenRequest& seen) {
      const Played& one = all[static_cast<std::size_t>(seen.number) % all.size()];
      if (one.cost == Played::Cost::said) paid += kUsd;
      if (one.cost == Played::Cost::estimate)
        paid += 2e-6 * static_cast<double>(estimated_tokens(bytes_of(question("question 1"))));
      return one.reply;
    });
    ModelConfig& config = add("a", server.url());
    config.provider = spoken.provider;
    config.retry.first_wait_s = config.retry.longest_wait_s = config.retry.breaker_rest_s = 0.01;
    const double most = configs[0].prices.usd_of(most_of(question("question 100"))) * 1.25;
    caps.run.usd = most + 12 * kUsd;
    start();
    const int asked = spend(4);
    BOOST_TEST(asked < 500, spoken.provider);
    const Spent spent = service->state().spent;
    service.reset();
    server.stop();
    BOOST_TEST(spent.usd >= paid - 1e-9,
               spoken.provider << " asks for " << paid << ", counted " << spent.usd);
    BOOST_TEST(paid <= *caps.run.usd + most, spoken.provider);
    BOOST_TEST(spent.usd <= *caps.run.usd * (1 + 1e-9), spoken.provider);
    BOOST_TEST(spent.usd > 6 * kUsd, spoken.provider);  // and it was used
  }
}

BOOST_AUTO_TEST_CASE(a_budget_holds_for_a_program_that_says_its_price_in_any_form) {
  // A call costs 0.08 USD, and each in another form; its prices would make it 0.01.
  const std::string result =
      R"("result": "fine", "total_cost_usd": 0.08, "usage": {"input_tokens": 9000, "output_tokens": 900})";
  add_program(R"(cat > /dev/null
echo x >> )" + (path() / "calls").string() +
              R"(
case $(( $(wc -l < )" +
              (path() / "calls").string() + R"() % 4 )) in
  0) echo '[{"type": "system"}, {"type": "result", "is_error": false, )" +
              result + R"(}]' ;;
  1) echo 'Warning: settings'; echo '{"type": "result", "is_error": false, )" +
              result + R"(}' ;;
  2) echo '{"type": "result", "is_error": true, )" +
              result + R"(}' ;;
  3) echo '{"type": "result", "is_error": false, )" +
              result + R"(}'; exit 1 ;;
esac)");
  caps.run.usd = 0.40;
  start();
  BOOST_TEST(spend(4) < 500);
  const double counted = service->state().spent.usd;
  service.reset();
  const std::string calls = read_text(path() / "calls");
  const double paid = 0.08 * static_cast<double>(std::ranges::count(calls, '\n'));
  BOOST_TEST(counted == paid, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(paid <= 0.40 + 0.08 + 1e-9);
  BOOST_TEST(paid >= 0.32 - 1e-9);
}

BOOST_AUTO_TEST_CASE(output_beyond_the_limit_counts_and_is_reckoned_with_from_then_on) {
  ChatServer server([](const SeenRequest&) {
    return event_stream(openai_events("x", {100, 0, 0, 5000, 0}));
  });
  add("a", server.url());
  caps.run.tokens = 12'000;
  start();
  BOOST_TEST(ask("one").has_value());
  BOOST_TEST(ask("two").has_value());
  const ServedResult third = ask("three");
  BOOST_TEST_REQUIRE(!third.has_value());
  BOOST_TEST((third.error().kind == ChatError::Kind::over_budget));
  BOOST_TEST(service->state().spent.usage.output == 10'000);
}

BOOST_AUTO_TEST_CASE(a_price_that_a_gateway_says_is_counted) {
  json usage = kOpenAiUsage;
  usage["cost"] = 0.005;
  ChatServer server([&](const SeenRequest&) {
    return status_reply(
        200, json{{"choices", json::array({{{"message", {{"content", "x"}}}, {"finish_reason", "stop"}}})},
                  {"usage", usage}}
                 .dump());
  });
  add("a", server.url());
  start();
  const ServedResult result = ask();
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->usd == 0.005);
}

BOOST_AUTO_TEST_SUITE_END()
