// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 140 s, operators/llm
// The real program against a provider that shows every kind of fault, in all three protocols, while the
// program is killed repeatedly: nothing that arrived is paid for twice, the ledger is exact, the search
// finishes, and the key appears nowhere.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "support/chat_models.hpp"
#include "support/own_task.hpp"
#include "support/scripted_search.hpp"

namespace fs = std::filesystem;
using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

constexpr const char* kKey = "sk-of-nobody-0123456789abcdef";
const SaidUsage kUsage{100, 40, 0, 25, 0};

// All that was said to the model, whatever the protocol.
void gather(const json& node, std::string& text) {
  if (node.is_string()) text += node.get<std::string>() + "\n";
  if (node.is_array())
    for (const json& item : node) gather(item, text);
  if (node.is_object())
    for (const char* key : {"content", "text"})
      if (node.contains(key)) gather(node.at(key), text);
}
std::string said_in(const SeenRequest& seen) {
  std::string text;
  for (const char* key : {"messages", "input"})
    if (seen.body.contains(key)) gather(seen.body.at(key), text);
  return text.substr(text.find("/*--- cultivar"));
}

const Spoken& protocol_of(const SeenRequest& seen) {
  for (const Spoken& spoken : protocols())
    if (seen.path == spoken.path) return spoken;
  throw std::runtime_error("no protocol has " + seen.path);
}

const std::vector<std::string> kFaults{"429 in 0.3 s", "429", "500",   "529",     "402",
                                       "stall",        "cut", "reset", "garbage", "huge",
                                       "wrong JSON",   "key", "tools", "slow",    "silent"};

Reply fault(const std::string& kind, const SeenRequest& seen) {
  const Spoken& spoken = protocol_of(seen);
  const std::string some = spoken.events("some words of an answer that never ends", kUsage, {});
  if (kind == "429 in 0.3 s") return status_reply(429, "{}", {"Retry-After: 0.3"});
  if (kind == "429") return status_reply(429, "{}");
  if (kind == "500") return status_reply(500, "<html>Oops</html>");
  if (kind == "529") return status_reply(529, R"({"error": {"type": "overloaded_error"}})");
  if (kind == "402") return status_reply(402, R"({"error": {"message": "pay first"}})");
  if (kind == "stall") return event_stream(some.substr(0, 250)).stall();
  if (kind == "cut") return event_stream(some.substr(0, 333));
  if (kind == "reset") return event_stream(some.substr(0, 250)).reset();
  if (kind == "garbage") return event_stream("data: {{{ " + std::string(kKey) + "\n\n");
  if (kind == "huge") return event_stream("data: " + std::string(9 << 20, 'x') + "\n\n");
  if (kind == "wrong JSON") return status_reply(200, R"({"answer": [1, 2]})");
  if (kind == "key") return status_reply(500, json{{"error", {{"message", kKey}}}}.dump());
  if (kind == "tools")
    return event_stream(spoken.events("", kUsage, {{"c1", "../../bin/sh", "{\"command\": \"rm -rf"}}));
  if (kind == "slow") return event_stream(spoken.events("I am slow.", kUsage, {})).in_pieces(200, 0.1);
  Reply silent;
  return silent.stall();
}

std::string settings(const std::string& url) {
  // rules 2: questions about a kernel do not wait for its first offspring, so that many are asked.
  std::string text =
      "rules: 2\noperators: {tune: 1, mutate: 6}\nasking: {in_flight: 3, resamples: 1}\nportfolio: {learn: "
      "false}\n"
      "models:\n";
  for (const Spoken& spoken : protocols())
    text += std::string("  by_") + spoken.provider + ":\n    provider: " + spoken.provider +
            "\n    base_url: " + url +
            "\n    model: model-x\n    api_key_env: CULTIVAR_TEST_KEY\n    max_output_tokens: 500\n"
            "    timeouts: {connect: 2s, first_byte: 1s, idle: 1s, total: 10s}\n"
            "    retry: {attempts: 4, first_wait: 0.05s, longest_wait: 0.5s, breaker_rest: 0.3s}\n"
            "    prices: {input: 2, cached: 0.2, cache_written: 2.5, output: 10}\n";
  return text;
}

bool names_the_key(const std::string& text) {
  return text.find(kKey) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(provider_faults)

BOOST_AUTO_TEST_CASE(any_fault_of_any_protocol_and_any_kill_leave_an_exact_ledger_and_a_search_that_ends) {
  const TemporaryFolder folder;
  write_own_task(folder.path(), "{evaluations: 32, wall: 10m}");
  std::mt19937 random(11);
  std::set<std::string> met;
  std::map<std::string, int> by_protocol;  // requests
  std::size_t faults = 0;
  ChatServer server([&](const SeenRequest& seen) {
    const Spoken& spoken = protocol_of(seen);
    // Every fault in turn, in each protocol two before each good answer, so that every model that is asked
    // meets some.
    if (++by_protocol[spoken.provider] % 3 != 0) {
      const std::string& kind = kFaults[faults++ % kFaults.size()];
      met.insert(kind);
      return fault(kind, seen);
    }
    return event_stream(spoken.events(
        renaming(kernel_named_in(said_in(seen)), "rms_norm_" + std::to_string(seen.number)), kUsage, {}));
  });
  write_text(folder / "search.yaml", read_text(folder / "search.yaml") + settings(server.url()));

  std::string printed;
  int kills = 0;
  CommandResult end;
  for (int session = 0; session < 30; ++session) {
    const bool begun = fs::exists(folder / "runs/own/run.db");
    RunningCommand search(cultivar_command(begun ? std::vector<std::string>{"resume", "own", "--json"}
                                                 : std::vector<std::string>{"run", "search.yaml", "--json"}),
                          {folder.path(), {{"CULTIVAR_TEST_KEY", kKey}}, 500.0});
    if (session < 5) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500 + random() % 2500);
      while (search.running() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (search.running()) {
        search.signal(SIGKILL);
        ++kills;
      }
    }
    end = search.wait();
    printed += end.out + end.err;
    if (end.exit == 0) break;
    BOOST_TEST_REQUIRE(end.exit == 128 + SIGKILL, end.err);
  }
  BOOST_TEST_INFO(end.err);
  BOOST_TEST_REQUIRE(end.exit == 0);
  BOOST_TEST(kills >= 2);
  const json facts_at_the_end = facts(end);
  BOOST_TEST(facts_at_the_end["evaluations"] == 32);
  BOOST_TEST_MESSAGE(kills << " kills, " << server.seen().size() << " requests, " << faults << " faults");
  BOOST_TEST(met.size() == kFaults.size());
  BOOST_TEST(by_protocol.size() == 3U);

  const auto run = Record::open(folder / "runs/own");
  BOOST_TEST_REQUIRE(run.has_value());
  std::map<std::string, int> arrived;
  std::map<std::string, double> usd;
  std::map<std::string, int> rows_of;
  int never_ended = 0;
  // Of the answers, to the last cent: Anthropic counts cached tokens apart, the others within.
  const auto price = [](const std::string& model) {
    return model == "by_anthropic" ? 1e-6 * (100 * 2.0 + 40 * 0.2 + 25 * 10.0)
                                   : 1e-6 * (60 * 2.0 + 40 * 0.2 + 25 * 10.0);
  };
  const auto rows = exchanges_of(*run);
  for (const ExchangeRow& row : rows) {
    ++rows_of[row.model];
    usd[row.model] += row.usd;
    BOOST_TEST(!names_the_key(row.message), row.message);
    if (row.state == ExchangeRow::State::arrived) {
      BOOST_TEST(++arrived[row.call] == 1, row.call << " was paid twice");
      BOOST_TEST(std::abs(row.usd - price(row.model)) < 1e-12);
    } else if (row.state == ExchangeRow::State::sent) {
      ++never_ended;
    } else if (row.error == "rate_limited" || row.error == "out_of_credit" || row.error == "overloaded") {
      BOOST_TEST(row.usd == 0.0);  // a refusal by status costs nothing
    } else if (row.error != "cancelled" && row.error != "unreachable") {
      BOOST_TEST(row.usd > 0.0, row.error);  // the provider has worked on it
      BOOST_TEST(row.usage.estimated, row.error);
    }
  }
  BOOST_TEST(never_ended <= 3 * kills);
  // A call pending at a kill counts with its maximum cost.
  SQLite::Statement reserved(run->database(), "SELECT model, reserved_usd FROM exchanges WHERE state = 0");
  while (reserved.executeStep()) usd[reserved.getColumn(0).getString()] += reserved.getColumn(1).getDouble();
  // Every request is recorded before it is sent.
  BOOST_TEST(server.seen().size() <= rows.size());
  BOOST_TEST(rows.size() - server.seen().size() <= static_cast<std::size_t>(3 * (kills + 1)));
  int used = 0;
  for (const ExchangeRow& row : rows) used += row.used_by != 0;
  BOOST_TEST(used >= 5);
  for (const auto& [model, said] : facts_at_the_end["models"].items()) {
    BOOST_TEST(said["calls"] == rows_of[model]);
    BOOST_TEST(std::abs(said["usd"].get<double>() - usd[model]) < 1e-9);
  }

  const auto replayed = cultivar_in(folder.path(), {"replay", "own", "--json"});
  BOOST_TEST(replayed.exit == 0, replayed.out + replayed.err);
  BOOST_TEST(!names_the_key(printed));
  for (const auto& file : fs::recursive_directory_iterator(folder.path()))
    if (file.is_regular_file()) BOOST_TEST(!names_the_key(read_text(file.path())), file.path());
}

BOOST_AUTO_TEST_SUITE_END()
