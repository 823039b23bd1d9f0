// SPDX-License-Identifier: Apache-2.0
// Insights: when the model is asked, which answers are accepted, and that later questions carry them.
#include "operators/reflect.hpp"

#include <boost/test/unit_test.hpp>
#include <mutex>

#include "operators/registry.hpp"
#include "support/contains.hpp"
#include "support/record_view.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::string kInsights =
    "I read all of it.\nINSIGHT: fusing the passes gained 4 % (#12)\n* INSIGHT: **more threads do not "
    "help**\n";

Evaluation measured(double fitness) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  e.stage = Stage::measure;
  e.fitness = fitness;
  return e;
}

struct Reader {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  MemoryChronicle record_view{task};
  PromptKit kit{{.resamples = 1}};
  Reflect reflect;
  RandomStream stream = stream_of(1, "test", 0);
  std::function<std::string(const std::string&)> source_of = [](const std::string&) { return std::string(); };
  std::vector<Turn> turns{1};

  IndividualId add(const std::string& source, const std::string& op, std::vector<IndividualId> parents,
                   Evaluation evaluation, const std::string& note) {
    const IndividualId id = record_view.add(source, op, std::move(parents), std::move(evaluation), note);
    reflect.observe(id, record_view.archive);
    return id;
  }
  std::optional<Brief> planned() {
    return reflect.plan({task, workloads, facts, record_view.archive, source_of, 0, {}}, stream);
  }
  Move after(const std::string& text) {
    Brief brief;
    brief.op = "reflect";
    brief.parents = {1};
    turns.back().answer.text = text;
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

BOOST_FIXTURE_TEST_SUITE(reflect, Reader)

BOOST_AUTO_TEST_CASE(it_asks_after_eight_new_sources_with_all_ideas_and_their_results) {
  const IndividualId seed = add("the seed's source", "seed", {}, measured(1.0), "");
  BOOST_TEST(!planned().has_value());
  const std::string note = "an idea with very many words " + std::string(500, 'w') + " up to here";
  const IndividualId best = add("the best source", "mutate", {seed}, measured(2.0), note);
  record_view.archive.settle(best, 1.5, {seed, Verdict::better, {0.405, 0.39, 0.42}, {}});
  for (int i = 0; i < 6; ++i)
    add("source " + std::to_string(i), "mutate", {best}, rejection(Stage::compile, "no such intrinsic", ""),
        "idea " + std::to_string(i));
  const auto brief = planned();
  BOOST_REQUIRE(brief);
  BOOST_TEST((brief->parents == std::vector<IndividualId>{best}));
  record_view.questions.push_back({.end = Idea::End::nothing,
                                   .question = 9,
                                   .op = "agent",
                                   .parents = {best},
                                   .words = "make it faster",
                                   .reason = "the budget is exhausted",
                                   .drafts = {"draft d1 of parent: Rejected at stage `smoke`"}});
  PromptContext context{.task = task,
                        .workloads = workloads,
                        .facts = facts,
                        .archive = record_view.archive,
                        .record_view = record_view,
                        .device = "a processor",
                        .incumbent = best};
  context.insights = {"an earlier insight"};
  Brief asked = *brief;
  asked.op = "reflect";
  const std::string user = first_question(asked, context, kit).messages.at(0).text;
  BOOST_TEST(user.starts_with("# What this search has learned so far\n\n- an earlier insight\n"), user);
  BOOST_TEST(contains(user, note + " -> 1.5; duel with #1: +49.9 % (+47.7 to +52.2 %)"), user);
  BOOST_TEST(contains(user, "- #8 mutate of #2: idea 5 -> rejected at compile: no such intrinsic"), user);
  BOOST_TEST(contains(user,
                      "- question 9, agent about #2: make it faster -> came to nothing: the budget is "
                      "exhausted; draft d1 of parent: Rejected at stage `smoke`"),
             user);
  BOOST_TEST(contains(user, "INSIGHT: what was learned"), user);
  reflect.asked(*brief, record_view.archive);
  BOOST_TEST(!planned().has_value());
}

BOOST_AUTO_TEST_CASE(a_long_kernel_and_a_long_report_make_way_for_ideas) {
  std::string kernel;
  for (int line = 0; line < 2000; ++line) kernel += "float line_" + std::to_string(line) + " = 0.0f;\n";
  const IndividualId seed = add(kernel, "seed", {}, measured(1.0), "");
  for (int i = 0; i < 40; ++i)
    add("source " + std::to_string(i), "mutate", {seed}, measured(0.5),
        "idea " + std::to_string(i) + " " + std::string(500, 'n'));
  Profile& profile = record_view.profiles[seed];
  profile.target = "cpu";
  profile.loops.resize(4);
  for (HotLoop& loop : profile.loops) {
    loop.instructions = 24;
    loop.code.resize(24, {1, std::string(200, 'v')});
  }
  const PromptContext context{.task = task,
                              .workloads = workloads,
                              .facts = facts,
                              .archive = record_view.archive,
                              .record_view = record_view,
                              .device = "a processor",
                              .incumbent = seed};
  Brief brief;
  brief.op = "reflect";
  brief.parents = {seed};
  for (const auto& [limit, ideas] : {std::pair(4'000, 8), {6'000, 14}, {12'000, 24}}) {
    kit = PromptKit({.prompt_tokens = limit});
    const ChatRequest request = first_question(brief, context, kit);
    const std::string user = request.messages.at(0).text;
    BOOST_TEST(estimated_tokens(user) + estimated_tokens(request.system.at(0).text) <= limit);
    int told = 0;
    while (told < 40 && contains(user, "idea " + std::to_string(39 - told) + " ")) ++told;
    BOOST_TEST(told >= ideas, told << " of " << ideas << " at " << limit);
    if (limit < 12'000) continue;
    BOOST_TEST(contains(user, "Innermost loops"), user);
    BOOST_TEST(contains(user, "line_0 "), user);
    BOOST_TEST(contains(user, " lines omitted]"), user);
  }
}

BOOST_AUTO_TEST_CASE(its_answer_is_a_few_insights_of_bounded_length) {
  const Move move = after(kInsights);
  const Directions* given = std::get_if<Directions>(&move);
  BOOST_REQUIRE(given);
  BOOST_REQUIRE(given->words.size() == 2U);
  BOOST_TEST(given->words[0] == "fusing the passes gained 4 % (#12)");
  BOOST_TEST(std::holds_alternative<ChatRequest>(after("It was all very interesting.")));
  BOOST_TEST(contains(said(), "It has 0 lines that start with `INSIGHT: `; 2 to 12 are required"), said());
  std::string much;
  for (int i = 0; i < 6; ++i) much += "INSIGHT: " + std::string(390, 'x') + "\n";
  const Move end = after(much);
  BOOST_REQUIRE(std::holds_alternative<GivenUp>(end));
  BOOST_TEST(contains(std::get<GivenUp>(end).reason, "The insights have 2340 bytes together"),
             std::get<GivenUp>(end).reason);
}

BOOST_FIXTURE_TEST_CASE(later_questions_carry_the_insights_after_a_resume_too_and_the_replay_agrees,
                        ScriptedRun) {
  std::mutex mutex;
  int reflections = 0, informed = 0, uninformed = 0;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    const std::string prompt = first_said(seen);
    const bool knows = prompt.starts_with("# What this search has learned so far\n\n- fusing the passes");
    if (contains(prompt, "Write down what these results teach")) {
      ++reflections;
      return say(kInsights);
    }
    ++(knows ? informed : uninformed);
    BOOST_TEST(!contains(prompt, "direction: fusing the passes"));  // no operator follows an insight
    return say(renaming(kernel_named_in(prompt), "softmax_" + std::to_string(seen.number)));
  });
  begin(with_model(server.url(), "{mutate: 1, reflect: 1}", {"budget.evaluations=16", "asking.in_flight=1"}));
  BOOST_TEST(reflections >= 1);
  BOOST_TEST(uninformed >= 6);
  BOOST_TEST(informed >= 1);
  BOOST_TEST(events("learned", "more threads do not help") == reflections);
  require_replay_agrees();
  uninformed = 0;
  resume({"budget.evaluations=20"});
  BOOST_TEST(uninformed == 0);
  BOOST_TEST(by_operator()["reflect"] == 0);
  require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
