// SPDX-License-Identifier: Apache-2.0
#include "operators/registry.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "operators/critique_repair.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;

namespace {

const std::string kSource =
    "/*--- cultivar\nname: plain\ntask: softmax\ntarget: cpu\nrequires: \"dtype == f32\"\ntunables:\n  A: "
    "{values: [1, 2, "
    "4], default: 1}\n  B: {values: [1, 2], default: 1}\nlaunch:\n  - kernel: softmax\n    threads: 1\n    "
    "args: [x, y, R, "
    "C]\n---*/\nextern \"C\" void softmax(const float*, float*, int, int) {}\n";

struct Talk {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  PromptKit kit{{.resamples = 2}};
  EditedParent parent{kSource, {{"A", std::int64_t{4}}, {"B", std::int64_t{2}}}};
  Brief brief;
  std::vector<Turn> turns;

  Talk() {
    brief.op = "mutate";
    brief.model = "m";
    brief.parents = {7};
    brief.island = 1;
    brief.direction = "be quick";
    turns.emplace_back();
    turns.back().request.messages.push_back(
        {ChatRole::user, "<evidence>\nstage `compile`: error C2\n</evidence>\nsource"});
  }
  Move after(const std::string& text, StopReason stop = StopReason::end) {
    turns.back().answer.text = text;
    turns.back().answer.stop = stop;
    Move move = next_move(brief, parent, task, kit, turns);
    if (const ChatRequest* next = std::get_if<ChatRequest>(&move)) {
      turns.emplace_back();
      turns.back().request = *next;
    }
    return move;
  }
  std::string said() const { return turns.back().request.messages.back().text; }
};

std::string block(const std::string& from, const std::string& to) {
  return "<<<<<<< SEARCH\n" + from + "\n=======\n" + to + "\n>>>>>>> REPLACE\n";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(dialogue, Talk)

BOOST_AUTO_TEST_CASE(an_edit_becomes_a_proposal_that_keeps_the_parents_values) {
  const Move move = after("Hm.\nIDEA: a better name\n" + block("name: plain", "name: better") +
                          block("  B: {values: [1, 2], default: 1}", "  B: {values: [1, 2, 8], default: 8}"));
  const Proposal& p = std::get<Proposal>(move);
  BOOST_TEST(contains(p.source, "name: better"));
  BOOST_TEST(p.descent.op == "mutate");
  BOOST_TEST((p.descent.parents == std::vector<IndividualId>{7}));
  BOOST_TEST(p.descent.island == 1);
  BOOST_TEST(p.descent.note == "a better name");
  // A is as it was and keeps its tuned value; B was changed, and takes its new default.
  const auto variant = make_variant(p.source, task, p.configuration);
  BOOST_REQUIRE(variant);
  BOOST_TEST(std::get<std::int64_t>(variant->configuration.at("A")) == 4);
  BOOST_TEST(std::get<std::int64_t>(variant->configuration.at("B")) == 8);
}

BOOST_AUTO_TEST_CASE(an_answer_without_an_idea_is_noted_by_its_direction) {
  BOOST_TEST(std::get<Proposal>(after(block("name: plain", "name: better"))).descent.note == "be quick");
}

BOOST_AUTO_TEST_CASE(a_refusal_goes_back_with_the_answer_and_the_reason_as_often_as_allowed) {
  BOOST_TEST(std::holds_alternative<ChatRequest>(after("no edit here")));
  BOOST_TEST(contains(said(), "The answer has no edit"), said());
  BOOST_TEST((turns.back().request.messages.at(1).role == ChatRole::assistant));
  BOOST_TEST(turns.back().request.messages.at(1).text == "no edit here");
  BOOST_TEST(std::holds_alternative<ChatRequest>(after(block("name: plane", "name: b"))));
  BOOST_TEST(contains(said(), "its SEARCH lines are not in the source"), said());
  const Move end = after("still nothing");
  BOOST_TEST(contains(std::get<GivenUp>(end).reason,
                      "3 answers could not be used; the last one: The answer has no edit"),
             std::get<GivenUp>(end).reason);
}

BOOST_AUTO_TEST_CASE(a_blank_answer_goes_back_once_as_no_text) {
  BOOST_TEST(std::holds_alternative<ChatRequest>(after("\n\n")));
  BOOST_TEST(turns.back().request.messages.at(1).text == "(no text)");
  const Move end = after("");
  const GivenUp& given_up = std::get<GivenUp>(end);
  BOOST_TEST(given_up.nothing_came);
  BOOST_TEST(contains(given_up.reason, "it sent no text; raise asking.output_tokens"), given_up.reason);
  Talk other;  // but an answer between them counts
  (void)other.after("");
  (void)other.after("no edit here");
  BOOST_TEST(std::holds_alternative<Proposal>(other.after(block("name: plain", "name: better"))));
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_all_reasoning_is_not_asked_for_again_with_the_same_limit) {
  turns.back().request.max_output_tokens = 16000;
  turns.back().answer.usage.reasoning = 16000;
  const Move end = after("", StopReason::length);
  const GivenUp& given_up = std::get<GivenUp>(end);
  BOOST_TEST(given_up.nothing_came);
  BOOST_TEST(contains(given_up.reason, "it used all 16000 output tokens for reasoning and sent no text"),
             given_up.reason);
  // A record of an earlier version that has an answer to the same question still gives what it gave.
  turns.emplace_back();
  BOOST_TEST(std::holds_alternative<Proposal>(after(block("name: plain", "name: better"))));
}

BOOST_AUTO_TEST_CASE(an_answer_in_the_reasoning_is_used_and_reasoning_without_one_goes_back_once) {
  turns.back().answer.from_reasoning = true;
  BOOST_TEST(std::holds_alternative<Proposal>(after(block("name: plain", "name: better"))));
  Talk other;
  other.turns.back().answer.from_reasoning = true;
  BOOST_TEST(std::holds_alternative<ChatRequest>(other.after("Hmm.")));
  other.turns.back().answer.from_reasoning = true;
  BOOST_TEST(std::get<GivenUp>(other.after("Hmm.")).nothing_came);
}

BOOST_AUTO_TEST_CASE(a_wrong_manifest_goes_back_and_is_proposed_in_the_end_to_be_recorded) {
  const std::string wrong = block("task: softmax", "task: softmacks");
  BOOST_TEST(std::holds_alternative<ChatRequest>(after(wrong)));
  BOOST_TEST(contains(said(), "invalid manifest"), said());
  BOOST_TEST(contains(said(), "softmacks"), said());
  BOOST_TEST(std::holds_alternative<ChatRequest>(after(wrong)));
  const Move end = after(wrong);
  BOOST_TEST(contains(std::get<Proposal>(end).source, "softmacks"));
}

BOOST_AUTO_TEST_CASE(a_source_with_a_wrong_manifest_is_mended_by_blocks_against_it) {
  (void)after(block("name: plain", "name: better") + block("task: softmax", "task: softmacks"));
  BOOST_TEST(contains(said(), "correct it with SEARCH/REPLACE blocks against it"), said());
  const Move move = after(block("task: softmacks", "task: softmax"));
  BOOST_TEST(contains(std::get<Proposal>(move).source, "name: better\ntask: softmax\n"));
  // The dialogue does not continue from an answer without a source.
  Talk other;
  (void)other.after(block("name: plane", "name: better"));
  BOOST_TEST(contains(other.said(), "Nothing of the answer was applied"), other.said());
}

BOOST_AUTO_TEST_CASE(the_headers_of_a_whole_source_may_come_in_any_order) {
  const std::size_t end = kSource.find("---*/\n");
  BOOST_REQUIRE(end != std::string::npos);
  const std::string main = kSource.substr(0, end) +
                           "headers: [a.hpp, b.hpp]\n---*/\n#include \"a.hpp\"\n#include \"b.hpp\"\n" +
                           kSource.substr(end + 6);
  const std::string a = "//// file: a.hpp ////\nint a;\n", b = "//// file: b.hpp ////\nint b;\n";
  const std::string answer = "IDEA: headers\n```cpp\n" + main + b + a + "```\n";
  const Move move = after(answer);
  const Proposal* const proposal = std::get_if<Proposal>(&move);
  BOOST_REQUIRE(proposal);
  BOOST_TEST(proposal->source == main + a + b);
  BOOST_TEST((proposal->variant != nullptr));
  Talk old;  // a record of rules 7
  old.kit = PromptKit({.resamples = 2, .any_header_order = false});
  BOOST_TEST(std::holds_alternative<ChatRequest>(old.after(answer)));
  BOOST_TEST(contains(old.said(), "a different order"), old.said());
}

BOOST_AUTO_TEST_CASE(another_target_the_same_source_and_a_cut_answer_are_rejected_with_a_message) {
  (void)after(block("target: cpu", "target: cuda"));
  BOOST_TEST((contains(said(), "must keep `target: cpu`") || contains(said(), "invalid manifest")), said());
  (void)after("```cpp\n" + kSource + "```\n");
  BOOST_TEST(contains(said(), "the one that you were given"), said());
  Talk cut;
  (void)cut.after(block("name: plain", "name: better"), StopReason::length);
  BOOST_TEST(contains(cut.said(), "cut off"), cut.said());
}

BOOST_AUTO_TEST_CASE(a_space_beyond_all_measure_is_never_proposed) {
  std::string values = "0", many;
  for (int i = 1; i < 100; ++i) values += ", " + std::to_string(i);
  for (int i = 0; i < 100; ++i) many += "\n  T" + std::to_string(i) + ": {values: [1, 2], default: 1}";
  (void)after(block("  A: {values: [1, 2, 4], default: 1}", "  A: {values: [" + values + "], default: 1}"));
  BOOST_TEST(contains(said(), "Tunable A has 100 values; at most 64"), said());
  (void)after(block("  A: {values: [1, 2, 4], default: 1}", "  A: {values: [1, 2, 4], default: 1}" + many));
  BOOST_TEST(contains(said(), "102 tunables; at most 32"), said());
  const Move end =
      after(block("  A: {values: [1, 2, 4], default: 1}", "  A: {values: [" + values + "], default: 1}"));
  BOOST_TEST(std::holds_alternative<GivenUp>(end));
}

BOOST_AUTO_TEST_CASE(a_repair_follows_only_a_critique_that_quotes_the_evidence) {
  brief.op = "critique_repair";
  (void)after("It is broken. EVIDENCE: trust me on this");
  BOOST_TEST(contains(said(), "do not occur in the evidence"), said());
  BOOST_TEST(contains(said(), "\n- trust me on this\n"), said());
  (void)after("EVIDENCE: \"stage `compile`: error C2\"\nCAUSE: a missing semicolon");
  BOOST_TEST(contains(said(), "Now make the repair"), said());
  BOOST_TEST(contains(said(), "<<<<<<< SEARCH"), said());
  const Move move = after("IDEA: x\n" + block("name: plain", "name: repaired"));
  BOOST_TEST(std::get<Proposal>(move).descent.note == "x (cause: a missing semicolon)");
}

BOOST_AUTO_TEST_CASE(a_critique_and_its_repair_have_a_limit_of_refusals_each) {
  brief.op = "critique_repair";
  for (const char* text : {"It is broken.", "EVIDENCE: trust me on this"})
    BOOST_TEST(std::holds_alternative<ChatRequest>(after(text)));
  (void)after("EVIDENCE: stage `compile`: error C2\nCAUSE: a missing semicolon");
  for (int i = 0; i < 2; ++i) BOOST_TEST(std::holds_alternative<ChatRequest>(after("no edit here")));
  BOOST_TEST(contains(std::get<GivenUp>(after("no edit here")).reason, "3 answers could not be used"));
}

BOOST_AUTO_TEST_CASE(prompts_that_offer_no_decline_keep_the_rules_of_their_time) {
  std::string old = kit.piece("answer");
  old.resize(old.find("Is no change worth it?"));
  kit = PromptKit({.resamples = 2}, {{"answer.md", old}});
  BOOST_TEST(std::holds_alternative<ChatRequest>(after("DECLINE: nothing to gain")));
  BOOST_TEST(contains(said(), "The answer has no edit"), said());
  Talk repair;
  repair.kit = kit;
  repair.brief.op = "critique_repair";
  for (const char* text : {"It is broken.", "EVIDENCE: trust me on this",
                           "EVIDENCE: stage `compile`: error C2\nCAUSE: a missing semicolon"})
    BOOST_TEST(std::holds_alternative<ChatRequest>(repair.after(text)));
  BOOST_TEST(std::holds_alternative<GivenUp>(repair.after("no edit here")));
}

BOOST_AUTO_TEST_CASE(an_answer_that_declines_ends_the_question_at_once) {
  const Move move = after("I looked at it.\n**DECLINE:** it is within 3 % of the roofline\n");
  const GivenUp& end = std::get<GivenUp>(move);
  BOOST_TEST((end.why == NoResult::declined));
  BOOST_TEST(contains(end.reason, "it is within 3 % of the roofline"), end.reason);
  Talk both;
  BOOST_TEST(std::holds_alternative<Proposal>(
      both.after("DECLINE: or not\n" + block("name: plain", "name: better"))));
  Talk critique;
  critique.brief.op = "critique_repair";
  BOOST_TEST((std::get<GivenUp>(critique.after("DECLINE: beyond repair")).why == NoResult::declined));
  Talk agent;
  agent.brief.op = "agent";
  BOOST_TEST((std::get<GivenUp>(agent.after("DECLINE: no draft is faster")).why == NoResult::declined));
}

BOOST_AUTO_TEST_CASE(a_quote_from_the_source_is_no_evidence) {
  const std::string request = "kernel text line\n<evidence>\n| B1_S64 | 12 us |\n</evidence>\nmore";
  BOOST_TEST(unfounded("EVIDENCE: | B1_S64 | 12 us |", request).empty());
  BOOST_TEST(unfounded("> EVIDENCE: B1_S64 |  12 us", request).empty());  // blanks and marks do not count
  BOOST_TEST(!unfounded("EVIDENCE: kernel text line", request).empty());
  BOOST_TEST(!unfounded("EVIDENCE: us", request).empty());
  BOOST_TEST(contains(unfounded("no quote", request), "cites no evidence"));
}

BOOST_AUTO_TEST_CASE(one_quotation_that_stands_does_not_carry_others_that_do_not) {
  const std::string request =
      "<evidence>\nRefused at stage `compile`\n| B1_S64 | 12 us | 40 % |\nline 7: wait\n</evidence>";
  const std::string row = "EVIDENCE: | B1_S64 | 12 us | 40 % |\n";
  BOOST_TEST(unfounded(row + "EVIDENCE: line 7: wait", request).empty());
  const std::string refusal = unfounded(row + "EVIDENCE: line 8: 93 % of samples, barrier", request);
  BOOST_TEST(contains(refusal, "\n- line 8: 93 % of samples, barrier\n"), refusal);
  BOOST_TEST(!contains(refusal, "B1_S64"), refusal);
}

// Quotes in the style of well-behaved models.
BOOST_AUTO_TEST_CASE(dots_within_a_quotation_and_words_around_one_are_fine) {
  const std::string request =
      "<evidence>\nRefused at stage `compile`\n| B1_S64 | 12 us | 40 % |\nline 7: wait\n</evidence>";
  for (const char* quote :
       {"| B1_S64 | ... | 40 % |", "the stage, `compile`, and `| B1_S64 | 12 us` at \"line 7\"",
        "| B1_S64 |\xE2\x80\xA6", "Refused at stage \"compile\" (so nothing was timed)"})
    BOOST_TEST(unfounded(std::string("EVIDENCE: ") + quote, request).empty(), quote);
  for (const char* quote : {"| B1_S64 | ... | 90 % |", "`compile` and `line 9`", "...", "``", "` `",
                            "| B1_S64 | is slow", "so nothing was timed (`64`)"})
    BOOST_TEST(!unfounded(std::string("EVIDENCE: ") + quote, request).empty(), quote);
}

BOOST_AUTO_TEST_CASE(the_same_answers_lead_to_the_same_end) {
  (void)after("no edit here");
  const Move first = after(block("name: plain", "name: better"));
  const Move again = next_move(brief, parent, task, kit, turns);
  BOOST_TEST(std::get<Proposal>(first).source == std::get<Proposal>(again).source);
}

BOOST_AUTO_TEST_CASE(what_goes_back_is_bounded_however_long_the_answer_was) {
  std::string endless = "IDEA: first line\n";
  for (int i = 0; i < 100'000; ++i) endless += "\xE2\x82\xAC filler\n";
  turns.back().answer.carried = {{"anthropic", std::string(200'000, 's')}};
  (void)after(endless + "no edit");
  const ChatMessage& back = turns.back().request.messages.at(1);
  BOOST_TEST(back.text.size() < 40'000U);
  BOOST_TEST(back.text.starts_with("IDEA: first line\n\xE2\x82\xAC filler"));
  BOOST_TEST(back.text.ends_with("filler\nno edit"));
  BOOST_TEST(contains(back.text, "bytes omitted"));
  BOOST_TEST(back.carried.is_null());
  BOOST_TEST(said().size() < 6'000U);
}

BOOST_AUTO_TEST_CASE(evidence_without_end_is_not_looked_for) {
  std::string critique;
  for (int i = 0; i < 200'000; ++i) critique += "EVIDENCE: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n";
  const std::string request = "<evidence>\n" + std::string(20'000, 'a') + "\n</evidence>";
  const auto begun = std::chrono::steady_clock::now();
  BOOST_TEST(!unfounded(critique, request).empty());
  BOOST_TEST((std::chrono::steady_clock::now() - begun < std::chrono::seconds(10)));
}

BOOST_AUTO_TEST_SUITE_END()
