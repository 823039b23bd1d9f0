// SPDX-License-Identifier: Apache-2.0
// Searches in which a model works with tools: the real loop, record, chat service and protocol; the model is
// a local server, the device is simulated.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include <SQLiteCpp/Database.h>

#include "engine/store/askings.hpp"
#include "engine/store/summary.hpp"
#include "engine/store/tool_results.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

using nlohmann::json;

Reply call(const std::vector<std::pair<std::string, json>>& calls, const std::string& text = "") {
  std::vector<SaidCall> said;
  for (const auto& [name, arguments] : calls)
    said.push_back({"c" + std::to_string(said.size()), name, arguments.dump()});
  return event_stream(openai_events(text, kUsage, said));
}

// How many answers the conversation has so far.
int answers_in(const SeenRequest& seen) {
  int answers = 0;
  for (const json& message : seen.body.at("messages")) answers += message.at("role") == "assistant";
  return answers;
}

// Of the newest results, by their order.
std::vector<std::string> results_in(const SeenRequest& seen) {
  std::vector<std::string> results;
  for (const json& message : seen.body.at("messages")) {
    if (message.at("role") == "assistant") results.clear();
    if (message.at("role") == "tool") results.push_back(message.at("content").get<std::string>());
  }
  return results;
}

std::string edit_of(const SeenRequest& seen, const std::string& suffix) {
  const std::string name = kernel_named_in(first_said(seen));
  return renaming(name, "softmax_fast_" + suffix);
}

// Reads, breaks it, repairs it, times it, submits it.
ChatServer::Script diligent(std::vector<std::vector<std::string>>* told = nullptr,
                            std::mutex* mutex = nullptr) {
  return [=](const SeenRequest& seen) {
    if (told) {
      const std::lock_guard lock(*mutex);
      told->push_back(results_in(seen));
    }
    const std::string mark = std::to_string(std::hash<std::string>()(first_said(seen)) % 100'000);
    switch (answers_in(seen)) {
      case 0:
        return call({{"read_variant", {{"variant", "parent"}}}, {"list_lineage", json::object()}});
      case 1:
        return call(
            {{"check",
              {{"variant", "parent"},
               {"edit", edit_of(seen, mark) + "<<<<<<< SEARCH\n  UNROLL: {values: [1, 2, 4, 8, 16], default: "
                                              "1}\n=======\n  UNROLL: {values: [1, 2, 4, 8, 16], default: "
                                              "16}\n>>>>>>> REPLACE\n"}}}});
      case 2:
        return call({{"check", {{"variant", "parent"}, {"edit", edit_of(seen, mark)}}}});
      case 3:
        return call({{"benchmark", {{"variant", "d2"}}}}, "It is right. How fast is it?");
      default:
        return call({{"submit", {{"variant", "d2"}, {"note", "the fast name " + mark}}}});
    }
  };
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(agent_search, ScriptedRun)

BOOST_AUTO_TEST_CASE(an_agent_reads_breaks_repairs_times_and_submits_and_the_search_judges_it) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> told;
  ChatServer server(diligent(&told, &mutex));
  Simulation simulation;
  simulation.evaluate_s = 0.02;
  const Outcome outcome = begin(
      with_model(server.url(), "{agent: 1}", {"budget.evaluations=5", "asking.in_flight=1"}), simulation);
  server.stop();
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  const Record run = record();
  int made = 0;
  run.each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.op != "agent") return;
    ++made;
    BOOST_TEST(row.individual.measured);
    BOOST_TEST(row.individual.descent.parents.size() == 1U);
    BOOST_TEST(row.individual.descent.note.find("the fast name ") == 0U);
    BOOST_TEST(row.individual.descent.tokens == 5 * 1100);
    BOOST_TEST(run.source(row.individual.id).find("name: softmax_fast_") != std::string::npos);
  });
  BOOST_TEST(made == 3);
  BOOST_REQUIRE(told.size() >= 5U);
  BOOST_REQUIRE(told[1].size() == 2U);
  BOOST_TEST(told[1][0].find("name: softmax") != std::string::npos, told[1][0]);
  BOOST_TEST(told[1][1].find("(Step 1 of 24. Left: about 398900 tokens, 300 s of device time.)") !=
                 std::string::npos,
             told[1][1]);
  BOOST_TEST(told[2].at(0).find("too much unrolling") != std::string::npos, told[2].at(0));
  BOOST_TEST(told[3].at(0).find("d2") != std::string::npos, told[3].at(0));
  BOOST_TEST(told[3].at(0).find("Passed every check") != std::string::npos, told[3].at(0));
  BOOST_TEST(told[4].at(0).find("GB/s") != std::string::npos, told[4].at(0));
  const json use = tool_use(run);
  BOOST_TEST(use.at("check").at("calls").get<int>() == 6);
  BOOST_TEST(use.at("benchmark").at("device_s").get<double>() >= 3 * 0.02);
  BOOST_TEST(use.at("read_variant").at("device_s").get<double>() == 0.0);
  // Charged to the proposal, for the bandit.
  double device_s = 0.0;
  run.each_decision([&](const DecisionRow& row) {
    if (row.kind == DecisionKind::propose) device_s += proposal_body(row.body).device_s;
  });
  BOOST_TEST(std::abs(device_s - use.at("benchmark").at("device_s").get<double>() -
                      use.at("check").at("device_s").get<double>()) < 1e-6);
  BOOST_TEST(events("tool", "step 4: benchmark: d2") == 3);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_kernel_made_from_another_one_than_the_question_s_has_it_as_its_first_parent) {
  ChatServer server([](const SeenRequest& seen) {
    const std::string mark = std::to_string(std::hash<std::string>()(first_said(seen)) % 100'000);
    if (answers_in(seen) == 0) return call({{"read_variant", {{"variant", "1"}}}});
    if (answers_in(seen) == 1) {
      const std::string own = renaming(kernel_named_in(results_in(seen).at(0)), "own_" + mark);
      return call({{"compile", {{"variant", "1"}, {"edit", own}}}});
    }
    return call({{"submit", {{"variant", "d1"}, {"note", "of the first " + mark}}}});
  });
  begin(with_model(server.url(), "{agent: 1}", {"budget.evaluations=5", "asking.in_flight=1"}));
  server.stop();
  const Record run = record();
  std::map<std::int64_t, IndividualId> asked_about;
  for (const AskedOn& asked : asked_questions(run))
    asked_about[asked.question.number] = asked.question.brief.parents.front();
  int others = 0;
  run.each_decision([&](const DecisionRow& row) {
    const std::int64_t question = row.kind == DecisionKind::propose ? proposal_body(row.body).asking : 0;
    if (question == 0) return;
    const IndividualId subject = asked_about.at(question);
    const std::vector<IndividualId> parents = run.individual(row.individual)->individual.descent.parents;
    BOOST_TEST(
        (parents == (subject == 1 ? std::vector<IndividualId>{1} : std::vector<IndividualId>{1, subject})));
    others += subject != 1;
  });
  BOOST_TEST(others >= 1);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(another_protocol_carries_the_same_dialogue) {
  std::mutex mutex;
  std::vector<json> last;
  ChatServer server([&](const SeenRequest& seen) {
    const json& messages = seen.body.at("messages");
    const std::string first = messages.at(0).at("content").at(0).at("text").get<std::string>();
    const std::lock_guard lock(mutex);
    last.push_back(messages.back());
    const SaidUsage usage{1000, 500, 0, 100, 0};
    if (answers_in(seen) == 0)
      return event_stream(anthropic_events(
          "", usage,
          {{"t1", "check",
            json{{"variant", "parent"}, {"edit", renaming(kernel_named_in(first), "softmax_fast_a")}}.dump()},
           {"t2", "read_knowledge", "{}"}}));
    return event_stream(
        anthropic_events("", usage, {{"t3", "submit", json{{"variant", "d1"}, {"note", "a"}}.dump()}}));
  });
  begin({"models.m={provider: anthropic, base_url: \"" + server.url() +
             "\", model: x, prices: {input: 2, output: 10}}",
         "operators={agent: 1}", "budget.evaluations=3", "asking.in_flight=1"});
  server.stop();
  BOOST_TEST(by_operator()["agent"] == 1);
  BOOST_REQUIRE(last.size() == 2U);
  BOOST_TEST(last[1].at("role") == "user");
  const json& content = last[1].at("content");
  BOOST_REQUIRE(content.size() ==
                2U);  // all results in one message, and a breakpoint of the cache at its end
  BOOST_TEST(content.at(0).at("type") == "tool_result");
  BOOST_TEST(content.at(0).at("tool_use_id") == "t1");
  BOOST_TEST(content.at(0).at("content").get<std::string>().find("Passed every check") != std::string::npos);
  BOOST_TEST(content.at(1).contains("cache_control"));
  // 1,100 of 1,600 tokens were not cached.
  BOOST_TEST(content.at(1).at("content").get<std::string>().find("about 398900 tokens") != std::string::npos);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(wrong_calls_come_back_with_the_reason_and_cost_a_step_alone) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> told;
  std::vector<std::string> last;
  ChatServer server([&](const SeenRequest& seen) {
    {
      const std::lock_guard lock(mutex);
      told.push_back(results_in(seen));
      last.push_back(last_said(seen));
    }
    switch (answers_in(seen)) {
      case 0:
        return call({{"benchmrk", {{"variant", "best"}}}, {"check", {{"varant", "best"}}}});
      case 1:
        return event_stream(openai_events("", kUsage, {{"c1", "check", "{\"variant\": \"be"}}));
      case 2:
        return say("I would rather talk about the weather.");
      case 3:  // in its text, though the protocol has a better way
        return say("```tool\n{\"tool\": \"check\", \"arguments\": {\"variant\": \"parent\"}}\n```\n" +
                   edit_of(seen, "texted"));
      case 4:
        return call({{"submit", {{"variant", "parent"}, {"note", "as it was"}}}});
      default:
        return call({{"submit", {{"variant", "d1"}, {"note", "renamed"}}}});
    }
  });
  begin(with_model(server.url(), "{agent: 1}", {"budget.evaluations=3", "asking.in_flight=1"}));
  server.stop();
  BOOST_TEST(by_operator()["agent"] == 1);
  BOOST_REQUIRE(told.size() == 6U);
  BOOST_REQUIRE(told[1].size() == 2U);
  BOOST_TEST(told[1][0].find("There is no tool `benchmrk`") != std::string::npos, told[1][0]);
  BOOST_TEST(told[1][0].find("benchmark") != std::string::npos, told[1][0]);
  BOOST_TEST(told[1][1].find("varant") != std::string::npos, told[1][1]);
  BOOST_TEST(told[2].at(0).find("not a JSON object") != std::string::npos, told[2].at(0));
  BOOST_TEST(last[3].find("Your answer calls no tool.") != std::string::npos, last[3]);
  BOOST_TEST(last[4].find("# Result of call 1, `check`") == 0U, last[4]);
  BOOST_TEST(last[4].find("Passed every check") != std::string::npos, last[4]);
  BOOST_TEST(told[5].at(0).find("submit a kernel that you changed") != std::string::npos, told[5].at(0));
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(an_exhausted_budget_leaves_one_last_chance_to_submit) {
  std::atomic<bool> submits{false};
  std::mutex mutex;
  std::vector<std::string> last;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    last.push_back(last_said(seen));
    if (answers_in(seen) == 0)
      return call({{"check", {{"variant", "parent"}, {"edit", edit_of(seen, "late")}}}});
    const bool asked = last.back().find("This is your last answer") != std::string::npos;
    if (asked && submits) return call({{"submit", {{"variant", "d1"}, {"note", "at last"}}}});
    return call({{"benchmark", {{"variant", "d1"}}}});
  });
  const auto settings = [&](const std::string& budget) {
    return with_model(server.url(), "{tune: 1, agent: 1}",
                      {"budget.evaluations=12", "asking={in_flight: 1, agent: " + budget + "}"});
  };
  begin(settings("{steps: 3}"));
  BOOST_TEST(by_operator()["agent"] == 0);
  const int given_up = events("unanswered", "the agent's budget is exhausted (3 of 3 steps are used)");
  BOOST_TEST(given_up >= 1);
  BOOST_TEST(server.seen().size() == 3U * static_cast<std::size_t>(given_up));
  require_replay_agrees();
  BOOST_TEST(tool_use(record()).at("benchmark").at("calls").get<int>() == given_up);  // not in the last step
  record().each_decision([&](const DecisionRow& row) {
    if (row.kind != DecisionKind::give_up) return;
    BOOST_TEST(json::parse(row.body).at("usd").get<double>() > 0.0);
  });

  submits = true;
  ScriptedRun other;
  const std::size_t before = server.seen().size();
  other.begin(settings("{tokens: 4000}"));  // 1,100 a step: the third is the last
  const int made = other.by_operator()["agent"];
  BOOST_TEST(made >= 1);
  BOOST_TEST(server.seen().size() - before == 3U * static_cast<std::size_t>(made));
  server.stop();
  BOOST_TEST(last.back().find("2200 of 4000 tokens are used") != std::string::npos, last.back());
  other.require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(exhausted_device_time_makes_the_next_answer_the_last) {
  std::mutex mutex;
  std::vector<std::string> told;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    told.push_back(last_said(seen));
    if (answers_in(seen) == 0)
      return call({{"check", {{"variant", "parent"}, {"edit", edit_of(seen, "long")}}}});
    return call({{"submit", {{"variant", "d1"}, {"note", "untimed"}}}});
  });
  Simulation simulation;
  simulation.evaluate_s = 1.1;
  begin(with_model(server.url(), "{agent: 1}",
                   {"budget.evaluations=3", "asking={in_flight: 1, agent: {device_seconds: 1}}"}),
        simulation);
  server.stop();
  BOOST_TEST(by_operator()["agent"] == 1);
  BOOST_REQUIRE(told.size() == 2U);
  BOOST_TEST(told[1].find("This is your last answer") != std::string::npos, told[1]);
  BOOST_TEST(told[1].find("of 1 s of device time are used") != std::string::npos, told[1]);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(an_interrupted_dialogue_resumes_where_it_was_and_pays_and_runs_nothing_twice) {
  std::atomic<bool> stop{false}, quick{false};
  ChatServer server([&, script = diligent()](const SeenRequest& seen) {
    if (!quick && answers_in(seen) == 3) {  // after the check of d2
      stop = true;
      return Reply{}.stall();
    }
    return script(seen);
  });
  const Outcome first = begin(
      with_model(server.url(), "{agent: 1}", {"budget.evaluations=3", "asking.in_flight=1"}), {}, {}, stop);
  BOOST_TEST((first.stop == Outcome::Stop::interrupted), first.reason);
  const json before = tool_use(record());
  BOOST_TEST(before.at("check").at("calls").get<int>() == 2);
  BOOST_TEST(summary_of(record()).questions.at("agents").at(0).at("step").get<int>() == 4);
  quick = true;
  const Outcome second = resume();
  BOOST_TEST((second.stop == Outcome::Stop::evaluations), second.reason);
  BOOST_TEST(by_operator()["agent"] == 1);
  const json after = tool_use(record());
  BOOST_TEST(after.at("check").at("calls").get<int>() == 2);
  BOOST_TEST(after.at("read_variant").at("calls").get<int>() == 1);
  const auto seen = server.seen();
  BOOST_REQUIRE(seen.size() == 6U);  // the fourth was asked again, to the letter
  BOOST_TEST(seen[3].body.dump() == seen[4].body.dump());
  std::map<std::string, int> arrived;
  for (const ExchangeRow& row : exchanges_of(record()))
    arrived[row.call] += row.state == ExchangeRow::State::arrived;
  BOOST_TEST(arrived.size() == 5U);
  for (const auto& [name, times] : arrived) BOOST_TEST(times == 1, name);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_replay_notices_what_a_tool_did_not_give) {
  ChatServer server(diligent());
  begin(with_model(server.url(), "{agent: 1}", {"budget.evaluations=3", "asking.in_flight=1"}));
  require_replay_agrees();
  {
    SQLite::Database db((path() / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
    db.exec(
        "UPDATE tool_results SET body = replace(body, 'softmax_fast_', 'softmax_other_') WHERE tool = "
        "'submit'");
  }
  const auto report = replay(path() / "run", simulated_runtime({}));
  BOOST_REQUIRE(report);
  BOOST_TEST(report->differences.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_stop_ends_a_tool_that_waits_for_the_device) {
  std::atomic<bool> stop{false};
  ChatServer server(diligent());
  const auto began = std::chrono::steady_clock::now();
  Simulation mixed;
  mixed.on_evaluate = [&](const Variant& variant) {
    if (variant.manifest.name.find("fast") == std::string::npos) return;
    stop = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  };
  const Outcome outcome =
      begin(with_model(server.url(), "{agent: 1}", {"budget.evaluations=50", "asking.in_flight=2"}), mixed,
            {}, stop);
  BOOST_TEST((outcome.stop == Outcome::Stop::interrupted), outcome.reason);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() < 15.0);
  const Outcome second = resume({"budget.evaluations=4"});
  BOOST_TEST((second.stop == Outcome::Stop::evaluations), second.reason);
  BOOST_TEST(by_operator()["agent"] >= 2);
  require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
