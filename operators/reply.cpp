// SPDX-License-Identifier: Apache-2.0
#include "operators/reply.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/system/json_text.hpp"
#include "evaluators/system/lines.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/edits/edits.hpp"
#include "operators/llm/empty_answer.hpp"
#include "operators/prompts/one_line.hpp"

namespace cultivar {

namespace {

// The beginning and the end of a text, in complete lines if possible, because the cost of a question grows
// with its length.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t head = most / 2, tail = text.size() - most / 2;
  if (const std::size_t end = text.rfind('\n', head); end != std::string::npos && end > head / 2)
    head = end + 1;
  if (const std::size_t end = text.find('\n', tail); end < tail + most / 4) tail = end + 1;
  head = character_start(text, head);
  while (character_start(text, tail) != tail) ++tail;
  return fmt::format("{}\n[... {} bytes omitted ...]\n{}", text.substr(0, head), tail - head,
                     text.substr(tail));
}

}  // namespace

ChatRequest reply_to(const Turn& last, std::string text, const PromptKit& kit) {
  const auto most =
      3 * static_cast<std::size_t>(kit.options().prompt_tokens);  // in bytes, at three per token
  ChatRequest next = last.request;
  next.call.clear();
  next.messages.push_back(last.answer.as_message());
  ChatMessage& said = next.messages.back();
  said.tool_calls.clear();  // none were offered
  said.text = shortened(said.text, most);
  if (json_text(said.carried).size() > most)
    said.carried = nullptr;  // signed thinking blocks cannot be shortened
  if (is_blank(said.text)) said.text = "(no text)";
  next.messages.push_back({ChatRole::user, std::move(text)});
  return next;
}

Move ask_again(const Conversation& c, int refused, const std::string& reason, std::string_view remedy) {
  constexpr std::size_t kMostWords =
      4000;  // limit for a refusal, which contains names and lines of the answer
  if (refused <= c.kit.resamples())
    return reply_to(
        c.turns.back(),
        c.kit.follow_up("refused", fmt::format("{}\n\n{}", shortened(reason, kMostWords), remedy)), c.kit);
  return GivenUp{
      fmt::format("{} answers could not be used; the last one: {}", refused, one_line_of(reason, 300))};
}

std::optional<GivenUp> nothing_came(const std::vector<Turn>& turns, const Move& next) {
  const auto nothing = [](const Turn& turn) {
    return says_nothing(turn.answer) || (turn.answer.from_reasoning && turn.results.empty());
  };
  const Turn& last = turns.back();
  const auto* const given_up = std::get_if<GivenUp>(&next);
  const bool fruitless = given_up && given_up->why == NoResult::fruitless;
  if (!nothing(last) || !(fruitless || std::holds_alternative<ChatRequest>(next))) return std::nullopt;
  const bool worked = std::ranges::any_of(turns, [](const Turn& turn) { return !turn.results.empty(); });
  const bool again = turns.size() > 1 && nothing(turns[turns.size() - 2]);
  if (!fruitless && !again && (worked || last.answer.stop != StopReason::length)) return std::nullopt;
  return without_text(last);
}

GivenUp without_text(const Turn& last) {
  return {fmt::format("{}; raise asking.output_tokens or the model's max_output_tokens, or lower its effort",
                      what_came(last.answer, last.request.max_output_tokens)),
          NoResult::fruitless, true};
}

std::vector<std::string> all_said_after(std::string_view mark, const std::string& answer, std::size_t most) {
  std::vector<std::string> all;
  for (const std::string_view line : lines_of(answer)) {
    const std::size_t at = line.find_first_not_of(" \t*#>-");
    if (at == std::string_view::npos || !line.substr(at).starts_with(mark)) continue;
    const std::size_t text = line.find_first_not_of(" \t*", at + mark.size());
    std::string rest = text == std::string_view::npos ? std::string() : one_line_of(line.substr(text), most);
    while (rest.ends_with('*') || rest.ends_with(' ')) rest.pop_back();
    all.push_back(std::move(rest));
  }
  return all;
}

std::string said_after(std::string_view mark, const std::string& answer) {
  constexpr std::size_t kMostIdea = 600;  // as prompts show it
  const std::vector<std::string> all = all_said_after(mark, answer, kMostIdea);
  return all.empty() ? std::string() : all.front();
}

std::optional<GivenUp> declined(const ChatAnswer& answer, const PromptKit& kit) {
  if (!kit.offers_decline()) return std::nullopt;
  std::string reason = said_after(kDecline, answer.text);
  if (reason.empty() || find_edit(answer.text)) return std::nullopt;
  return GivenUp{std::move(reason), NoResult::declined};
}

}  // namespace cultivar
