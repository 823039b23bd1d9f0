// SPDX-License-Identifier: Apache-2.0
// kill -9 of a search that asks a language model, at any instant: no answer that arrived is requested again,
// no question is lost, and the record still replays.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "engine/store/askings.hpp"
#include "engine/store/summary.hpp"
#include "engine/store/tool_results.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

// The model is a program: a third of its answers are unusable at first. It records each question.
constexpr const char* kModel = R"sh(#!/bin/sh
prompt=$(cat)
sum=$(printf '%s' "$prompt" | cksum | cut -d' ' -f1)
echo "$sum" >> "$1"
name=$(printf '%s\n' "$prompt" | sed -n 's/^name: //p' | head -n 1)
if [ $((sum % 3)) -eq 0 ] && ! printf '%s' "$prompt" | grep -q 'could not be used'; then
  echo 'Let me think about it.'
  exit 0
fi
printf 'IDEA: another name\n<<<<<<< SEARCH\nname: %s\n=======\nname: softmax_fast_%s\n>>>>>>> REPLACE\n' "$name" "$sum"
)sh";

// An agent over the same program: it edits and checks, thinks, times, submits. The prompt holds the
// conversation.
constexpr const char* kAgent = R"sh(#!/bin/sh
prompt=$(cat)
sum=$(printf '%s' "$prompt" | cksum | cut -d' ' -f1)
echo "$sum" >> "$1"
name=$(printf '%s\n' "$prompt" | sed -n 's/^name: //p' | head -n 1)
fence='```'
case $(printf '%s\n' "$prompt" | grep -c '^## You answered') in
0)
  printf '%stool\n{"tool": "check", "arguments": {"variant": "parent"}}\n%s\n' "$fence" "$fence"
  printf '<<<<<<< SEARCH\nname: %s\n=======\nname: softmax_fast_%s\n>>>>>>> REPLACE\n' "$name" "$sum" ;;
1) echo 'Let me think about it.' ;;
2) printf '%stool\n{"tool": "list_lineage"}\n%s\n%stool\n{"tool": "benchmark", "arguments": {"variant": "d1"}}\n%s\n' \
  "$fence" "$fence" "$fence" "$fence" ;;
*) printf '%stool\n{"tool": "submit", "arguments": {"variant": "d1", "note": "another name"}}\n%s\n' "$fence" "$fence" ;;
esac
)sh";

// Kills the search repeatedly, lets it finish, and checks the record.
void killed_at_any_instant(const fs::path& folder, const char* model, const std::string& op) {
  const fs::path run = folder / "run", told = folder / "told";
  write_text(folder / "model.sh", model, true);
  Simulation simulation;
  simulation.compile_s = simulation.evaluate_s = 0.003;
  Runtime runtime = simulated_runtime(simulation);
  runtime.cache = folder / "cache";  // remembers the model's command, so that resume runs it
  const auto session = [&](const std::string& evaluations) {
    if (fs::exists(run / "run.db"))
      return told_by(resume_search(run, {"budget.evaluations=" + evaluations}, runtime, {}, kNever));
    const Config config =
        softmax_config(folder / "config",
                       {"models.m={provider: command, command: [\"" + (folder / "model.sh").string() +
                            "\", \"" + (folder / "asked").string() + "\"], prices: {input: 1, output: 1}}",
                        "operators={tune: 1, " + op + ": 2}", "asking={in_flight: 4, agent: {steps: 6}}",
                        "budget.evaluations=" + evaluations});
    return told_by(begin_search(config, run, runtime, {}, kNever));
  };
  RandomStream stream = stream_of(5, "kills", 0);
  // On a busy machine a session gets less far before it is killed.
  const auto few_questions = [&] {
    return !fs::exists(run / "run.db") || asked_questions(*Record::open(run)).size() <= 5;
  };
  for (int i = 0; i < 12 || (i < 50 && few_questions()); ++i) {
    const pid_t pid = in_child(told, [&] { return session("100000"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + below(stream, 500)) +
                                std::chrono::milliseconds(50 * std::max(0, i - 12)));
    BOOST_REQUIRE_MESSAGE(killed(pid), read_text(told));
  }
  const auto count = Record::open(run)->count();
  BOOST_TEST(count > 10);
  // Pending questions end in individuals or are given up; no new ones are started.
  wait_for(in_child(told, [&] { return session(std::to_string(count + 12)); }));
  BOOST_TEST(read_text(told).find("evaluations is exhausted") != std::string::npos, read_text(told));

  const auto record = Record::open(run);
  BOOST_TEST(summary_of(*record).in_flight == 0);
  BOOST_TEST(summary_of(*record).questions.at("open").get<int>() == 0);
  std::map<std::string, int> arrived, sent;
  int cut = 0;
  for (const ExchangeRow& row : exchanges_of(*record)) {
    ++sent[row.call];
    arrived[row.call] += row.state == ExchangeRow::State::arrived;
    cut += row.state == ExchangeRow::State::sent;
    if (row.used_by != 0) BOOST_TEST(record->individual(row.used_by)->individual.descent.op == op);
  }
  for (const auto& [call, times] : arrived) BOOST_TEST(times == 1, call);
  BOOST_TEST(cut >= 1);  // some were pending when it was killed
  std::map<std::int64_t, int> ends;
  std::size_t asked = asked_questions(*record).size();
  record->each_decision([&](const DecisionRow& row) {
    if (row.kind == DecisionKind::propose) {
      if (const auto body = proposal_body(row.body); body.asking != 0) ++ends[body.asking];
    } else if (row.kind == DecisionKind::give_up) {
      ++ends[nlohmann::json::parse(row.body).at("asking").get<std::int64_t>()];
    }
  });
  BOOST_TEST(ends.size() == asked);
  for (const auto& [number, times] : ends) BOOST_TEST(times == 1, number);
  BOOST_TEST_MESSAGE(asked << " questions, " << sent.size() << " calls, " << cut << " cut by kills");

  wait_for(in_child(told, [&] { return told_by(replay(run, simulated_runtime({}))); }));
  BOOST_TEST(read_text(told) == "agrees");
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(asking_kill, ScratchFolder)

BOOST_AUTO_TEST_CASE(killed_at_any_instant_no_answer_is_paid_twice_and_no_question_is_lost) {
  killed_at_any_instant(path(), kModel, "mutate");
}

BOOST_AUTO_TEST_CASE(killed_amid_the_work_of_agents_no_step_is_paid_and_no_recorded_tool_is_run_twice) {
  killed_at_any_instant(path(), kAgent, "agent");
  const auto record = Record::open(path() / "run");
  int dialogues = 0, longest = 0;
  for (const AskedOn& asked : asked_questions(*record)) {
    const auto results = recorded_results(*record, asked.question.number);
    ++dialogues;
    for (const auto& [turn, outcomes] : results) {
      longest = std::max(longest, static_cast<int>(turn));
      std::set<std::size_t> calls;
      for (const ToolOutcome& outcome : outcomes) BOOST_TEST(calls.insert(outcome.index).second);
    }
  }
  BOOST_TEST(dialogues > 5);
  BOOST_TEST(longest >= 3);
}

BOOST_AUTO_TEST_SUITE_END()
