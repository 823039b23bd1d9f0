// SPDX-License-Identifier: Apache-2.0
// The next move of an agent's dialogue, from its answers and tool results; pure, without running tools.
#include "operators/agent/agent_dialogue.hpp"

#include <boost/test/unit_test.hpp>
#include <utility>

#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;

namespace {

struct Talk {
  ToolBudget budget;
  std::vector<Turn> turns;
  Brief brief;

  Talk() {
    brief.op = "agent";
    brief.parents = {7};
    brief.island = 2;
    brief.direction = "be quick";
    ChatRequest first;
    first.call = "agent/1/0";
    first.messages.push_back({ChatRole::user, "a kernel"});
    first.tools = agent_tool_specs(target_named("cpu"));
    turns.push_back({first, {}, {}});
  }
  Move next() const { return agent_move(brief, PromptKit({.resamples = 1, .tools = budget}), turns); }
  Move said(const std::string& text, StopReason stop = StopReason::end) {
    turns.back().answer.text = text;
    turns.back().answer.stop = stop;
    return next();
  }
  Move called(const std::vector<std::string>& tools) {
    for (const std::string& tool : tools)
      turns.back().answer.tool_calls.push_back(
          {"id" + std::to_string(turns.back().answer.tool_calls.size()), tool, "{}"});
    return next();
  }
  void gave(std::size_t index, const std::string& text, double device_s = 0.0) {
    ToolOutcome outcome;
    outcome.index = index;
    outcome.text = text;
    outcome.device_s = device_s;
    turns.back().results.push_back(outcome);
  }
  // The dialogue takes the request that the move makes.
  const ChatRequest& goes_on() {
    Move move = next();
    BOOST_REQUIRE(std::holds_alternative<ChatRequest>(move));
    turns.push_back({std::get<ChatRequest>(std::move(move)), {}, {}});
    return turns.back().request;
  }
};

std::string reason(const Move& move) {
  const auto* given_up = std::get_if<GivenUp>(&move);
  return given_up ? given_up->reason : "went on";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(agent_dialogue, Talk)

BOOST_AUTO_TEST_CASE(calls_are_run_one_by_one_and_go_back_with_what_is_left) {
  Move move = called({"list_lineage", "compile"});
  BOOST_TEST(std::get<ToolDue>(move).index == 0U);
  gave(0, "three kernels");
  move = next();
  BOOST_TEST(std::get<ToolDue>(move).call.name == "compile");
  BOOST_TEST(std::get<ToolDue>(move).index == 1U);
  gave(1, "it compiles", 2.0);
  const ChatRequest& request = goes_on();
  BOOST_TEST(request.call.empty());
  BOOST_REQUIRE(request.messages.size() == 4U);
  BOOST_TEST(request.messages[1].tool_calls.size() == 2U);
  BOOST_TEST(request.messages[2].tool_call_id == "id0");
  BOOST_TEST(request.messages[2].text == "three kernels");
  BOOST_TEST(
      contains(request.messages[3].text, "it compiles\n\n(Step 1 of 24. Left: about 400000 tokens, 298 s"));
  BOOST_TEST(request.messages[3].stable);
  BOOST_TEST(request.tools.size() == agent_tool_specs(target_named("cpu")).size());
}

BOOST_AUTO_TEST_CASE(of_too_many_calls_the_first_run_and_the_others_are_skipped_and_counted) {
  std::vector<std::string> many(kCallsAnAnswer + 2, "list_lineage");
  called(many);
  for (std::size_t i = 0; i < kCallsAnAnswer; ++i) gave(i, "known");
  const ChatRequest& request = goes_on();
  BOOST_REQUIRE(request.messages.size() == 2 + kCallsAnAnswer);  // every call of a protocol needs an answer
  BOOST_TEST(request.messages[1].tool_calls.size() == kCallsAnAnswer);
  BOOST_TEST(contains(request.messages.back().text,
                      "known\n\n(Not run: 2 more calls. At most 8 calls of one answer are run.)"));
}

BOOST_AUTO_TEST_CASE(a_flood_of_calls_in_text_is_not_repeated) {
  std::string flood;
  for (int i = 0; i < 60'000; ++i) flood += "```tool\n{\"tool\":\"diff\"}\n```\n";
  said("Eight and more:\n" + flood);
  for (std::size_t i = 0; i < kCallsAnAnswer; ++i) gave(i, "known");
  const std::size_t before = bytes_of(turns.back().request);
  const ChatRequest& request = goes_on();
  BOOST_TEST(bytes_of(request) < before + 1500);
  BOOST_TEST(request.messages[1].text.starts_with("Eight and more:\n```tool\n"));
  BOOST_TEST(request.messages[1].text.ends_with("```\n"));
  BOOST_TEST(contains(request.messages.back().text, "(Not run: 59992 more calls."));
}

BOOST_AUTO_TEST_CASE(a_question_that_cannot_fit_is_not_asked) {
  budget.tokens = 50'000;
  called({"list_lineage"});
  turns.back().answer.usage.input = 1000;
  gave(0, std::string(300'000, 'x'));
  BOOST_TEST(contains(reason(next()), "the agent's next request was not sent: it has about"));
}

BOOST_AUTO_TEST_CASE(the_device_time_that_is_used_up_is_said_once_and_the_next_answer_is_the_last) {
  budget.device_seconds = 3;
  called({"benchmark"});
  gave(0, "timed", 2.99);
  BOOST_TEST(contains(goes_on().messages.back().text,
                      "Your budget ends here: 3.0 of 3 s of device time are used. This is your last answer"));
  BOOST_TEST(contains(reason(called({"benchmark"})), "3.0 of 3 s of device time are used"));
}

BOOST_AUTO_TEST_CASE(what_was_submitted_is_the_proposal_whatever_else_was_called) {
  called({"submit", "benchmark"});
  gave(0, "handed over");
  turns.back().results.back().handed_over =
      SubmittedKernel{"a source", {{"A", std::int64_t{2}}}, "wider\nand more"};
  const Move move = next();
  const Proposal* proposal = std::get_if<Proposal>(&move);
  BOOST_REQUIRE(proposal);
  BOOST_TEST(proposal->source == "a source");
  BOOST_TEST(proposal->descent.op == "agent");
  BOOST_TEST((proposal->descent.parents == std::vector<IndividualId>{7}));
  BOOST_TEST(proposal->descent.island == 2);
  BOOST_TEST(proposal->descent.note == "wider");
}

BOOST_AUTO_TEST_CASE(the_kernel_that_it_was_made_from_is_its_first_parent) {
  called({"submit"});
  gave(0, "handed over");
  for (const IndividualId from : {3, 7}) {
    turns.back().results.back().handed_over = SubmittedKernel{"a source", {}, "wider", from};
    const Move move = next();
    BOOST_REQUIRE(std::holds_alternative<Proposal>(move));
    const auto& parents = std::get<Proposal>(move).descent.parents;
    BOOST_TEST((parents == (from == 7 ? std::vector<IndividualId>{7} : std::vector<IndividualId>{3, 7})));
  }
}

BOOST_AUTO_TEST_CASE(a_submission_that_repeats_an_idea_goes_back_once_with_what_that_one_gave) {
  const auto submits = [&](bool similar) {
    called({"submit", "benchmark"});
    gave(0, "handed over");
    turns.back().results.back().handed_over = SubmittedKernel{"a source", {}, "wider"};
    if (!similar) return;
    gave(kCallsAnAnswer, "Your change is nearly the same as #3.");
    turns.back().results.back().tool = kSimilarIdea;
  };
  submits(true);
  const ChatRequest& request = goes_on();
  BOOST_REQUIRE(request.messages.size() == 4U);
  BOOST_TEST(
      request.messages[2].text.starts_with("Not handed over yet. Your change is nearly the same as #3."));
  BOOST_TEST(request.messages[3].text.starts_with("Not run."));
  submits(false);
  BOOST_TEST(std::holds_alternative<Proposal>(next()));  // it insists
  turns.back().answer = {};
  turns.back().results.clear();
  BOOST_TEST(contains(reason(said("DECLINE: then nothing")), "then nothing"));

  // Without room for another answer it is the proposal.
  turns.resize(1);
  turns.back().answer = {};
  turns.back().results.clear();
  submits(true);
  budget.tokens = 10;
  BOOST_TEST(std::holds_alternative<Proposal>(next()));
}

BOOST_AUTO_TEST_CASE(answers_without_calls_are_refused_and_then_given_up) {
  said("Hello.");
  BOOST_TEST(contains(goes_on().messages.back().text, "Your answer calls no tool."));
  BOOST_TEST(contains(reason(said("I think", StopReason::length)),
                      "2 answers in a row had no executable tool call"));
  BOOST_TEST(contains(reason(next()), "cut off"));
}

BOOST_AUTO_TEST_CASE(a_call_in_between_makes_up_for_idle_answers) {
  for (int i = 0; i < 3; ++i) {
    said("Hello.");
    goes_on();
    called({"list_lineage"});
    gave(0, "known");
    goes_on();
  }
  BOOST_TEST(reason(said("Hello.")) == "went on");
}

BOOST_AUTO_TEST_CASE(a_malformed_call_is_reported_with_its_line) {
  said("So:\n```tool\n{\"tool\": \"compile\"\n```\n");
  BOOST_TEST(contains(goes_on().messages.back().text, "The tool call on line 2: it is not valid JSON"));
}

BOOST_AUTO_TEST_CASE(the_last_step_is_announced_and_runs_nothing_but_submit) {
  budget.steps = 2;
  called({"list_lineage"});
  gave(0, "known");
  BOOST_TEST(contains(goes_on().messages.back().text, "1 of 2 steps are used. This is your last answer"));
  const Move move = called({"benchmark", "submit"});
  BOOST_REQUIRE(std::holds_alternative<ToolDue>(move));
  BOOST_TEST(std::get<ToolDue>(move).index == 1U);
  gave(1, "there is no d9");
  BOOST_TEST(contains(reason(next()), "the agent's budget is exhausted (2 of 2 steps are used)"));
}

BOOST_AUTO_TEST_CASE(tokens_from_a_cache_do_not_count_and_others_end_it) {
  budget.tokens = 5000;
  turns.back().request.tools.clear();  // they are long, beside such a budget
  called({"list_lineage"});
  gave(0, "known");
  turns.back().answer.usage.cached = 100'000;
  turns.back().answer.usage.input = 1000;
  BOOST_TEST(!contains(goes_on().messages.back().text, "last answer"));
  called({"list_lineage"});
  gave(0, "known");
  turns.back().answer.usage.input = 1600;  // 2,600 are used; two more such steps are too many
  BOOST_TEST(contains(goes_on().messages.back().text, "about 2600 of 5000 tokens are used"));
}

BOOST_AUTO_TEST_SUITE_END()
