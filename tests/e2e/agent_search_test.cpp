// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 270 s, operators/agent
// An agent in searches on the real cpu target: its kernels are compiled, checked and timed by real workers
// between its steps, and judged like any other. Once over a language model's protocol, once in letters.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "support/chat_server.hpp"
#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

// Wider: fewer norms. The first version forgets to advance by that width.
std::string widening(const std::string& step, const std::string& width) {
  return "<<<<<<< SEARCH\n    for (int first = 0; first < C; first += 128) {\n=======\n"
         "    for (int first = 0; first < C; first += " +
         step +
         ") {\n>>>>>>> REPLACE\n"
         "<<<<<<< SEARCH\n      for (int c = first; c < C && c < first + 128; ++c) y[c] = x[c] * "
         "scale;\n=======\n"
         "      for (int c = first; c < C && c < first + " +
         width + "; ++c) y[c] = x[c] * scale;\n>>>>>>> REPLACE\n";
}

struct Place : TemporaryFolder {
  Place() {
    write_own_task(path(), "{evaluations: 2, wall: 15m}");
    write_text(path() / "slow.cpp", slow_rms_norm);
    set_own_workloads(path(), "      - {R: 5000, C: 400}\n");
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  }
  std::string settings(const std::string& model) const {
    return replaced(replaced(read_text(path() / "search.yaml"), "[plain, blocked]", "[./slow.cpp]"),
                    "max_device_seconds: 1s", "max_device_seconds: 30s") +
           "operators: {agent: 1}\nasking: {in_flight: 1, agent: {steps: 10}}\nmodels:\n  me: " + model +
           "\n";
  }
  json shown(const std::string& run, const std::string& id) const {
    return facts(cultivar_in(path(), {"show", run, id, "--json"}));
  }
  void require_replay_agrees(const std::string& run) const {
    const auto replayed = cultivar_in(path(), {"replay", run, "--json"});
    BOOST_TEST_INFO(replayed.out);
    BOOST_TEST(replayed.exit == 0);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(agent_search, Place)

BOOST_AUTO_TEST_CASE(over_a_protocol_an_agent_repairs_its_kernel_with_what_real_workers_say) {
  std::vector<std::string> told;
  ChatServer server([&](const SeenRequest& seen) {
    int step = 0;
    for (const json& message : seen.body.at("messages")) step += message.at("role") == "assistant";
    told.push_back(seen.body.at("messages").back().at("content").get<std::string>());
    const auto call = [](const std::string& name, const json& arguments) {
      return event_stream(openai_events("", {1000, 0, 0, 50, 0}, {{"c1", name, arguments.dump()}}));
    };
    switch (step) {
      case 0:
        return call("read_variant", {{"variant", "parent"}});
      case 1:
        return call("check", {{"variant", "1"}, {"edit", widening("1024", "512")}});
      case 2:
        return call("check", {{"variant", "1"}, {"edit", widening("1024", "1024")}});
      case 3:
        return call("benchmark", {{"variant", "d2"}});
      case 4:
        return call("profile", {{"variant", "d2"}});
      default:
        return call("submit", {{"variant", "d2"}, {"note", "one norm a row"}});
    }
  });
  write_text(path() / "agent.yaml",
             settings("{provider: openai, base_url: \"" + server.url() + "\", model: x}"));
  const auto result = cultivar_in(path(), {"run", "agent.yaml", "--json"}, 500.0);
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_REQUIRE(told.size() == 6U);
  BOOST_TEST(contains(told[1], "name: rms_norm_slow"), told[1]);
  BOOST_TEST(contains(told[2], "never written"), told[2]);
  BOOST_TEST(contains(told[3], "Passed every check: smoke, sweep, stress, determinism, edge"), told[3]);
  BOOST_TEST(contains(told[4], "x the speed of 1 (95 % interval "), told[4]);
  BOOST_TEST(contains(told[5], "rms_norm_slow"), told[5]);
  for (const std::string& words : told) BOOST_TEST(!contains(words, "R12345"));  // the unseen shape
  const json best = shown("own", "best");
  BOOST_TEST(best["operator"] == "agent");
  BOOST_TEST(best["note"] == "one norm a row");
  const json end = facts(result);
  BOOST_TEST(end["best"]["ratio_to_seed"].get<double>() > 2.0);
  BOOST_TEST(end["tools"]["check"]["calls"] == 2);
  BOOST_TEST(end["tools"]["benchmark"]["device_s"].get<double>() > 0.0);
  require_replay_agrees("own");
}

BOOST_AUTO_TEST_CASE(in_letters_an_agent_survives_a_kill_and_serves_a_second_search) {
  write_text(path() / "mail.yaml", settings("{provider: mailbox, folder: mail}"));
  const fs::path mail = path() / "mail";
  const std::map<std::string, std::string> answers{
      {"0",
       "Let me see.\n\n```tool\n{\"tool\": \"list_lineage\"}\n```\n```tool\n{\"tool\": \"check\", "
       "\"arguments\": {\"variant\": \"parent\"}}\n```\n" +
           widening("1024", "512")},
      {"1", "```tool\n{\"tool\": \"check\", \"arguments\": {\"variant\": \"parent\"}}\n```\n" +
                widening("1024", "1024") +
                "```tool\n{\"tool\": \"benchmark\", \"arguments\": {\"variant\": \"d2\"}}\n```\n"},
      {"2",
       "```tool\n{\"tool\": \"submit\", \"arguments\": {\"variant\": \"d2\", \"note\": \"one norm a "
       "row\"}}\n```\n"}};
  std::set<std::string> answered;
  bool refused = false;
  std::map<std::string, std::string> letters;  // by turn
  // Answers every open request; the first answer at first contains an unclosed call.
  const auto look = [&] {
    std::error_code none;
    for (const auto& file : fs::directory_iterator(mail / "requests", none)) {
      const std::string id = file.path().stem().string();
      if (file.path().extension() != ".md" || id.starts_with(".") || answered.contains(id)) continue;
      const std::string turn = id.substr(0, id.rfind('-')).substr(id.substr(0, id.rfind('-')).rfind('-') + 1);
      letters[turn] = read_text(file.path());
      if (!refused) {
        refused = true;
        write_text(mail / "answers" / (id + ".md"), "```tool\n{\"tool\": \"check\"}\n");
        for (int i = 0; i < 300 && !fs::exists(mail / "answers/rejected" / (id + ".why.txt")); ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        BOOST_TEST(
            contains(read_text(mail / "answers/rejected" / (id + ".why.txt")), "its block is not closed"));
      }
      write_text(mail / "part", answers.at(turn));
      fs::rename(mail / "part", mail / "answers" / (id + ".md"));
      answered.insert(id);
    }
  };
  const auto until = [&](RunningCommand& search, const std::function<bool()>& done) {
    for (int i = 0; i < 6000 && search.running() && !done(); ++i) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  {
    RunningCommand search(cultivar_command({"run", "mail.yaml", "--json"}),
                          {.folder = path(), .environment = {}, .deadline_s = 400.0});
    // Its second answer has been read: its tools are running or have run.
    until(search, [&] {
      return std::ranges::any_of(answered, [&](const std::string& id) {
        return id.starts_with("agent-1-1-") && fs::exists(mail / "answers/taken" / (id + ".md"));
      });
    });
    search.signal_group(SIGKILL);
    search.wait();
  }
  RunningCommand search(cultivar_command({"resume", "own", "--json"}),
                        {.folder = path(), .environment = {}, .deadline_s = 400.0});
  until(search, [] { return false; });
  const auto result = search.wait();
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_TEST(answered.size() == 3U);  // none was asked again
  BOOST_TEST(contains(letters["0"], "## Tool `benchmark`"));
  BOOST_TEST(contains(letters["1"], "# Result of call 2, `check`"));
  BOOST_TEST(contains(letters["1"], "never written"));
  BOOST_TEST(contains(letters["2"], "Passed every check"));
  BOOST_TEST(contains(letters["2"], "x the speed of 1 (95 % interval "));
  const json end = facts(result), best = shown("own", "best");
  BOOST_TEST(best["operator"] == "agent");
  BOOST_TEST(end["tools"]["check"]["calls"] == 2);
  std::map<std::string, int> arrived;
  for (const json& exchange : facts(cultivar_in(path(), {"show", "own", "agent/1", "--prompt", "--json"})))
    arrived[exchange["call"].get<std::string>()] += exchange["answer"].is_object();
  BOOST_TEST(arrived.size() == 3U);
  for (const auto& [call, times] : arrived) BOOST_TEST(times == 1, call);
  const auto prompt = cultivar_in(path(), {"show", "own", "best", "--prompt"});
  BOOST_TEST_REQUIRE(prompt.exit == 0);
  BOOST_TEST(contains(prompt.out, "==== agent/1/2 to me"));
  require_replay_agrees("own");

  // Replays the same answers; the tools run again.
  BOOST_TEST_REQUIRE(cultivar_in(path(), {"export", "own", "--answers", "answers.jsonl"}).exit == 0);
  write_text(path() / "again.yaml", settings("{provider: replay, file: answers.jsonl, match: call}"));
  const auto again = cultivar_in(path(), {"run", "again.yaml", "--run-dir", "runs/again", "--json"}, 500.0);
  BOOST_TEST_INFO(again.err);
  BOOST_TEST_REQUIRE(again.exit == 0);
  BOOST_TEST(shown("runs/again", "2")["variant"] == shown("own", "2")["variant"]);
  require_replay_agrees("runs/again");
}

BOOST_AUTO_TEST_SUITE_END()
