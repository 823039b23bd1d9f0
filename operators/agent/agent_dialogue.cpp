// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/agent_dialogue.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "evaluators/system/plain_text.hpp"
#include "operators/agent/toolbox.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/llm/tool_text.hpp"
#include "operators/reply.hpp"

namespace cultivar {

namespace {

constexpr const char* kSubmit = "submit";
constexpr double kSpentShare = 0.98;  // share of the device seconds after which too little is left to measure

// The tool calls of an answer, from the provider's protocol or from its text.
struct Called {
  std::vector<ToolCall> calls;
  bool in_text = false;
  std::string refusal;  // why there are no calls
};

Called calls_of(const Turn& turn) {
  Called called{turn.answer.tool_calls, false, {}};
  if (!called.calls.empty()) return called;
  called.in_text = true;
  auto found = tool_calls_in_text(turn.answer.text, turn.request.tools);
  if (!found)
    called.refusal = found.error();
  else if (found->empty())
    called.refusal = turn.answer.stop == StopReason::length
                         ? "Your answer was cut off because it was too long, before it called a tool."
                         : "Your answer calls no tool.";
  else
    called.calls = std::move(*found);
  return called;
}

const ToolOutcome* outcome_of(const Turn& turn, std::size_t index) {
  const auto found = std::ranges::find(turn.results, index, &ToolOutcome::index);
  return found == turn.results.end() ? nullptr : &*found;
}

std::int64_t tokens_of(const Turn& turn) {
  const Usage& usage = turn.answer.usage;
  return usage.total() - usage.cached;
}

// The budget used by the turns up to and including `last`, and the reason why the next step must be the last
// one; empty if it need not be.
struct Used {
  std::int64_t tokens = 0;
  double device_s = 0.0;
  std::string closing;
};

Used used_after(const std::vector<Turn>& turns, std::size_t last, const ToolBudget& budget) {
  Used used;
  for (std::size_t i = 0; i <= last; ++i) {
    used.tokens += tokens_of(turns[i]);
    for (const ToolOutcome& result : turns[i].results) used.device_s += result.device_s;
  }
  if (static_cast<int>(last) + 2 >= budget.steps)
    used.closing = fmt::format("{} of {} steps are used", last + 1, budget.steps);
  else if (budget.device_seconds > 0.0 && used.device_s >= kSpentShare * budget.device_seconds)
    used.closing =
        fmt::format("{:.1f} of {:g} s of device time are used", used.device_s, budget.device_seconds);
  else if (used.tokens + 2 * tokens_of(turns[last]) >
           budget.tokens)  // assumes that each step uses at least as many tokens as the previous one
    used.closing = fmt::format("about {} of {} tokens are used", used.tokens, budget.tokens);
  return used;
}

std::string left_words(const Used& used, std::size_t steps, const ToolBudget& budget) {
  return fmt::format("\n\n(Step {} of {}. Left: about {} tokens, {:.0f} s of device time.)", steps,
                     budget.steps, std::max<std::int64_t>(0, budget.tokens - used.tokens),
                     std::max(0.0, budget.device_seconds - used.device_s));
}

ChatMessage said_by_user(std::string text) {
  ChatMessage message;
  message.text = std::move(text);
  return message;
}

// Continues the conversation: the answer, the tools' results, and the remaining budget.
ChatRequest next_request(const Turn& turn, const Called& called, const std::string& left) {
  ChatRequest next = turn.request;
  next.call.clear();
  next.messages.push_back(turn.answer.as_message());
  // Calls that are not run are removed, because every call in a conversation needs a result.
  const std::size_t run = std::min(called.calls.size(), kCallsAnAnswer);
  if (called.in_text)
    next.messages.back().text = text_before_call(next.messages.back().text, kCallsAnAnswer);
  else
    next.messages.back().tool_calls.resize(run);
  if (called.in_text && is_blank(next.messages.back().text)) next.messages.back().text = "(no text)";
  std::string all;
  for (std::size_t i = 0; i < run; ++i) {
    const ToolCall& call = called.calls[i];
    const ToolOutcome* const outcome = outcome_of(turn, i);
    ChatMessage result;
    result.role = ChatRole::tool;
    result.tool_call_id = call.id;
    result.tool_failed = !outcome || outcome->failed;
    result.text = outcome ? outcome->text : "Not run.";
    if (const ToolOutcome* const similar = turn.similar_idea(); similar && outcome && outcome->handed_over)
      result.text = fmt::format(
          "Not handed over yet. {}\nIf it differs in a way that matters, submit it again with a note that "
          "says how; otherwise go on with another idea, or decline.",
          similar->text);
    if (called.in_text)
      all += fmt::format("{}# Result of call {}, `{}`{}\n\n{}", all.empty() ? "" : "\n\n", i + 1, call.name,
                         result.tool_failed ? " (the call failed)" : "", result.text);
    else
      next.messages.push_back(std::move(result));
  }
  if (called.in_text && !all.empty()) next.messages.push_back(said_by_user(std::move(all)));
  if (run < called.calls.size())
    next.messages.back().text +=
        fmt::format("\n\n(Not run: {} more calls. At most {} calls of one answer are run.)",
                    called.calls.size() - run, kCallsAnAnswer);
  if (!called.calls.empty()) next.messages.back().text += left;
  return next;
}

// Why this question cannot be asked; empty if it can.
std::string too_much(const ChatRequest& next, const Turn& turn, const Used& used, const ToolBudget& budget) {
  const std::size_t bytes = bytes_of(next), before = bytes_of(turn.request);
  if (bytes > ChatBounds{}.request_bytes) return fmt::format("it has {} bytes", bytes);
  const Usage& usage = turn.answer.usage;
  const bool cached = usage.cached > 0 || usage.cache_written > 0;  // then only new text counts
  const std::size_t added = bytes > before ? bytes - before : 0;
  // The provider reported the tokens of the previous question, which is a prefix of this one.
  const std::int64_t tokens = (cached            ? 0
                               : usage.input > 0 ? usage.input
                                                 : estimated_tokens(before)) +
                              estimated_tokens(added);
  if (used.tokens + tokens <= budget.tokens) return {};
  return fmt::format("it has about {} tokens, and {} of {} are used", tokens, used.tokens, budget.tokens);
}

}  // namespace

Move agent_move(const Brief& brief, const PromptKit& kit, const std::vector<Turn>& turns) {
  if (turns.empty()) return GivenUp{"no answer arrived"};
  const ToolBudget& budget = kit.options().tools;
  const std::size_t at = turns.size() - 1;
  const Turn& turn = turns[at];
  const Called called = calls_of(turn);
  const std::string closing = at == 0 ? std::string() : used_after(turns, at - 1, budget).closing;

  std::optional<Proposal> submitted;
  for (std::size_t i = 0; i < std::min(called.calls.size(), kCallsAnAnswer); ++i) {
    const ToolOutcome* const outcome = outcome_of(turn, i);
    if (!outcome && !closing.empty() && called.calls[i].name != kSubmit) continue;
    if (!outcome) return ToolDue{i, called.calls[i]};
    if (!outcome->handed_over) continue;
    Proposal proposal;
    proposal.source = outcome->handed_over->source;
    proposal.configuration = outcome->handed_over->configuration;
    proposal.descent.parents = brief.parents;
    if (const IndividualId from = outcome->handed_over->from; from != 0) {
      std::erase(proposal.descent.parents, from);
      proposal.descent.parents.insert(proposal.descent.parents.begin(), from);
    }
    proposal.descent.op = brief.op;
    proposal.descent.island = brief.island;
    const std::string note = one_line_of(outcome->handed_over->note, 200);
    proposal.descent.note = note.empty() ? brief.direction : note;
    // What repeats an earlier idea is told once, if there is room for another answer.
    if (!turn.similar_idea() || !closing.empty()) return proposal;
    submitted = std::move(proposal);
    break;
  }

  if (called.calls.empty())
    if (auto end = declined(turn.answer, kit)) return *std::move(end);
  if (!closing.empty())
    return GivenUp{
        fmt::format("the agent's budget is exhausted ({}), and it submitted nothing{}",
                    static_cast<int>(turns.size()) >= budget.steps
                        ? fmt::format("{} of {} steps are used", turns.size(), budget.steps)
                        : closing,
                    called.refusal.empty() ? "" : "; its last answer: " + one_line_of(called.refusal, 200))};
  int idle = 0;
  for (auto earlier = turns.rbegin(); earlier != turns.rend() && calls_of(*earlier).calls.empty(); ++earlier)
    ++idle;
  if (idle > kit.resamples())
    return GivenUp{fmt::format("{} answers in a row had no executable tool call; the last one: {}", idle,
                               one_line_of(called.refusal, 200))};

  const Used used = used_after(turns, at, budget);
  ChatRequest next = next_request(turn, called, left_words(used, at + 1, budget));
  std::string words;
  if (!called.refusal.empty()) words = kit.follow_up("agent_refused", called.refusal);
  if (!used.closing.empty())
    words += (words.empty() ? "" : "\n\n") + kit.follow_up("agent_last", used.closing);
  if (!words.empty()) next.messages.push_back(said_by_user(std::move(words)));
  next.messages.back().stable = true;
  if (const std::string why = too_much(next, turn, used, budget); !why.empty()) {
    if (submitted) return *std::move(submitted);
    return GivenUp{"the agent's next request was not sent: " + why};
  }
  return next;
}

std::vector<ToolSpec> agent_tool_specs(Target target) {
  std::vector<ToolSpec> specs;
  for (AgentTool& tool : agent_tools(target, true)) {
    if (tool.spec.name == kSubmit)
      tool.spec.description =
          "Ends this work: submits a draft to the search, which evaluates it from the beginning with new "
          "inputs; only the gate decides whether it becomes the best. Submit a draft that you checked and "
          "timed.";
    specs.push_back(std::move(tool.spec));
  }
  return specs;
}

std::string budget_words(const ToolBudget& budget) {
  return fmt::format(
      "{} steps (your answers, each with up to {} tool calls), about {} tokens, and {:.0f} s of the "
      "device",
      budget.steps, kCallsAnAnswer, budget.tokens, budget.device_seconds);
}

}  // namespace cultivar
