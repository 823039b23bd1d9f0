// SPDX-License-Identifier: Apache-2.0
// The planner: when it asks, what its prompt has, which answers it accepts, and a search that follows a plan.
#include "operators/plan.hpp"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <set>

#include <SQLiteCpp/Database.h>

#include "engine/store/summary.hpp"
#include "operators/registry.hpp"
#include "support/contains.hpp"
#include "support/record_view.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::string kPlan =
    "I weighed it.\nSTRATEGY: Fuse the two passes over a row.\n* STRATEGY: **keep the row in registers**\n"
    "- STRATEGY: use eight independent sums\n";

Evaluation measured(double fitness) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  e.stage = Stage::measure;
  e.fitness = fitness;
  return e;
}

struct Planner {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  MemoryChronicle record_view{task};
  PromptKit kit{{.resamples = 2}};
  PlanOperator plan;
  bool frugal = false;
  RandomStream stream = stream_of(1, "test", 0);
  std::function<std::string(const std::string&)> source_of = [](const std::string&) { return std::string(); };
  std::vector<Turn> turns{1};

  IndividualId add(const std::string& source, const std::string& op, std::vector<IndividualId> parents,
                   Evaluation evaluation) {
    const IndividualId id = record_view.add(source, op, std::move(parents), std::move(evaluation), "a note");
    plan.observe(id, record_view.archive);
    return id;
  }
  std::optional<Brief> planned() {
    OperatorContext context{task, workloads, facts, record_view.archive, source_of, 0, {}};
    context.frugal = frugal;
    return plan.plan(context, stream);
  }
  Move after(const std::string& text, StopReason stop = StopReason::end) {
    Brief brief;
    brief.op = "plan";
    brief.parents = {1};
    turns.back().answer.text = text;
    turns.back().answer.stop = stop;
    Move move = next_move(brief, {}, task, kit, turns);
    if (const ChatRequest* next = std::get_if<ChatRequest>(&move)) {
      turns.emplace_back();
      turns.back().request = *next;
    }
    return move;
  }
  std::string said() const { return turns.back().request.messages.back().text; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(plan, Planner)

BOOST_AUTO_TEST_CASE(it_asks_about_the_fittest_and_again_after_six_new_sources) {
  BOOST_TEST(!planned().has_value());
  const IndividualId seed = add("a", "seed", {}, measured(1.0));
  const IndividualId best = add("a", "tune", {seed}, measured(2.0));
  const auto brief = planned();
  BOOST_REQUIRE(brief);
  BOOST_TEST((brief->parents == std::vector<IndividualId>{best}));
  plan.asked(*brief, record_view.archive);
  for (int i = 0; i < 20; ++i) add("a", "tune", {seed}, measured(1.5));  // no news
  for (int i = 0; i < 6; ++i) {
    BOOST_TEST(!planned().has_value(), i);
    add("source " + std::to_string(i), "mutate", {best}, rejection(Stage::compile, "error", ""));
  }
  BOOST_TEST(planned().has_value());
}

BOOST_AUTO_TEST_CASE(the_first_plan_waits_for_two_answers) {
  Planner p;
  p.frugal = true;
  const IndividualId seed = p.add("a", "seed", {}, measured(1.0));
  BOOST_TEST(!p.planned());
  (void)p.add("b", "mutate", {seed}, measured(9.0));
  BOOST_TEST(!p.planned());
  const IndividualId best = p.add("c", "mutate", {seed}, measured(10.0));
  BOOST_REQUIRE(p.planned());
  BOOST_TEST(p.planned()->parents.front() == best);
}

BOOST_AUTO_TEST_CASE(its_prompt_has_the_kernel_the_profile_and_the_trajectory) {
  const IndividualId seed = add("the first source", "seed", {}, measured(1.0));
  const IndividualId best = add("the best source", "mutate", {seed}, measured(2.0));
  add("a wrong source", "agent", {best}, rejection(Stage::smoke, "wrong by much", "o[0] = 2, not 1"));
  record_view.promotions = {seed, best};
  Profile profile;
  profile.target = "cpu";
  profile.workload = workloads.front().name;
  record_view.profiles[best] = profile;
  const PromptContext context{.task = task,
                              .workloads = workloads,
                              .facts = facts,
                              .archive = record_view.archive,
                              .record_view = record_view,
                              .device = "a processor",
                              .incumbent = best};
  Brief brief = planned().value();
  brief.op = "plan";
  const ChatRequest request = first_question(brief, context, kit);
  const std::string& user = request.messages.at(0).text;
  BOOST_TEST(request.tools.empty());
  BOOST_TEST(contains(user, "the best source"), user);
  BOOST_TEST(contains(user, "## Its bottlenecks"), user);
  BOOST_TEST(contains(user,
                      "- #2 mutate of #1: a note -> 2; over #1: +100.0 % by one measurement of each, with a "
                      "noise of 1 %"),
             user);
  BOOST_TEST(contains(user, "- #3 agent of #2: a note -> rejected at smoke: wrong by much"), user);
  BOOST_TEST(contains(user, "o[0] = 2, not 1"), user);
  BOOST_TEST(contains(user, "STRATEGY: "), user);
}

BOOST_AUTO_TEST_CASE(three_to_five_strategies_are_directions) {
  const Move move = after(kPlan);
  const Directions* given = std::get_if<Directions>(&move);
  BOOST_REQUIRE(given);
  const std::vector<std::string> expected{"Fuse the two passes over a row", "keep the row in registers",
                                          "use eight independent sums"};
  BOOST_TEST(given->words == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_no_plan_goes_back_with_the_reason_as_often_as_allowed) {
  const std::string one = "STRATEGY: fuse the two passes\n";
  BOOST_TEST(std::holds_alternative<ChatRequest>(after("Fuse the passes.")));
  BOOST_TEST(contains(said(), "It has 0 lines that start with `STRATEGY: `; 3 to 5 are required"), said());
  BOOST_TEST(contains(said(), "Send 3 to 5 lines `STRATEGY: ...`"), said());
  BOOST_TEST(turns.back().request.messages.at(0).text == "Fuse the passes.");
  (void)after(one + one + one);
  BOOST_TEST(contains(said(), "Strategy 2 (\"fuse the two passes\") occurs twice"), said());
  const Move end = after(kPlan, StopReason::length);
  BOOST_REQUIRE(std::holds_alternative<GivenUp>(end));
  BOOST_TEST(
      contains(std::get<GivenUp>(end).reason, "3 answers could not be used; the last one: It was cut off"));

  Planner other;
  (void)other.after(kPlan + "STRATEGY: faster\n");
  BOOST_TEST(contains(other.said(), "Strategy 4 (\"faster\") is too short"), other.said());
  (void)other.after(kPlan + "STRATEGY: " + std::string(400, 'x') + "\n");
  BOOST_TEST(contains(other.said(), "has more than 300 bytes"), other.said());
  BOOST_TEST(std::holds_alternative<Directions>(other.after(kPlan)));
}

BOOST_FIXTURE_TEST_CASE(a_search_follows_a_plan_and_its_replay_agrees_when_it_was_resumed_too, ScriptedRun) {
  std::mutex mutex;
  int plans = 0;
  std::multiset<std::string> directions;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    const std::string prompt = first_said(seen);
    if (contains(prompt, "Plan the next steps of this search")) {
      if (seen.body.at("messages").size() <= 2) return say("Make it faster.");
      ++plans;
      return say(kPlan);
    }
    const std::string mark = "Make one change in this direction: ";
    const std::size_t at = prompt.find(mark) + mark.size();
    directions.insert(prompt.substr(at, prompt.find(". Think first", at) - at));
    return say(renaming(kernel_named_in(prompt), "softmax_" + std::to_string(seen.number)));
  });
  const std::vector<std::string> strategies{"Fuse the two passes over a row", "keep the row in registers",
                                            "use eight independent sums"};
  begin(with_model(server.url(), "{mutate: 1, plan: 1}", {"budget.evaluations=16", "asking.in_flight=2"}));
  BOOST_TEST(plans >= 1);
  BOOST_TEST((summary_of(record()).plan.at("strategies") == nlohmann::json(strategies)));
  for (const std::string& strategy : strategies) BOOST_TEST(directions.count(strategy) >= 1U, strategy);
  require_replay_agrees();

  resume({"budget.evaluations=32"});
  BOOST_TEST(plans >= 2);
  BOOST_TEST(events("directed", strategies.front()) == plans);
  int recorded = 0;
  record().each_decision([&](const DecisionRow& row) { recorded += row.kind == DecisionKind::direct; });
  BOOST_TEST(recorded == plans);
  for (const std::string& strategy : strategies)
    BOOST_TEST(directions.count(strategy) <= static_cast<std::size_t>(plans), strategy);
  BOOST_TEST(by_operator()["plan"] == 0);  // it makes no individuals
  BOOST_TEST(summary_of(record()).questions.at("open").get<int>() == 0);
  require_replay_agrees();

  // Other words than the recorded answers give are a difference.
  SQLite::Database((path() / "run" / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE decisions SET body = replace(body, 'registers', 'memory') WHERE kind = 'direct'");
  const auto report = replay(path() / "run", simulated_runtime({}));
  BOOST_REQUIRE(report);
  BOOST_REQUIRE(!report->differences.empty());
  BOOST_TEST(contains(report->differences.front(), "its answers give others"), report->differences.front());
}

BOOST_AUTO_TEST_SUITE_END()
