// SPDX-License-Identifier: Apache-2.0
#include "operators/reply.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/variant.hpp"
#include "operators/edits/edits.hpp"
#include "operators/llm/chat_errors.hpp"

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

namespace {

struct Understood {
  std::optional<Proposal> proposal;  // set together with a refusal if the source has an invalid manifest
  std::string refusal;               // empty if there is none
};

// `base`: the source that blocks are applied to: the parent, or the result of an answer with an invalid
// manifest.
Understood understand(const Conversation& c, const std::string& base, const ChatAnswer& answer) {
  Understood result;
  if (answer.stop == StopReason::length) {
    result.refusal =
        "Your answer was cut off because it was too long. Send a shorter one: SEARCH/REPLACE blocks for "
        "what changes, and no more text than needed.";
    return result;
  }
  const auto edit = find_edit(answer.text);
  auto source = edit ? apply_edit(base, *edit)
                     : tl::expected<std::string, EditRefusal>(tl::make_unexpected(edit.error()));
  if (!source) {
    result.refusal = source.error().words;
    return result;
  }
  if (c.kit.options().any_header_order) *source = with_listed_order(*source);
  Proposal proposal;
  proposal.source = *source;
  proposal.descent.parents = c.brief.parents;
  proposal.descent.op = c.brief.op;
  proposal.descent.island = c.brief.island;
  const std::string idea = said_after("IDEA:", answer.text);
  proposal.descent.note = idea.empty() ? c.brief.direction : idea;
  VariantPtr before = c.parent.variant;
  if (!before)
    if (auto parsed = make_variant(c.parent.source, c.task, c.parent.configuration))
      before = std::make_shared<const Variant>(*std::move(parsed));
  auto manifest = parse_manifest(*source);
  if (!manifest) {
    result.refusal = "The resulting source has an invalid manifest: " + manifest.error().text();
  } else {
    if (const std::string why = too_many(*manifest); !why.empty()) {
      result.refusal = why;
      return result;
    }
    if (before) proposal.configuration = inherited(*manifest, before->manifest, c.parent.configuration);
    auto variant = make_variant(*source, *std::move(manifest), c.task, proposal.configuration);
    if (!variant)
      result.refusal = "The resulting source has an invalid manifest: " + variant.error().text();
    else if (before && variant->manifest.target != before->manifest.target)
      result.refusal = fmt::format("The manifest must keep `target: {}`.", name_of(before->manifest.target));
    else if (before && variant->id == before->id)
      result.refusal = "The resulting source equals the one that you were given.";
    if (variant) proposal.variant = std::make_shared<const Variant>(*std::move(variant));
  }
  result.proposal = std::move(proposal);
  return result;
}

// What a repair changed, and why.
std::string noted(const std::string& idea, const std::string& cause) {
  return idea.empty() ? cause : fmt::format("{} (cause: {})", idea, cause);
}

}  // namespace

std::string too_many(const Manifest& manifest) {
  constexpr std::size_t kTunables = 32, kValues = 64;
  if (manifest.tunables.size() > kTunables)
    return fmt::format("The manifest has {} tunables; at most {} are allowed.", manifest.tunables.size(),
                       kTunables);
  for (const Tunable& tunable : manifest.tunables)
    if (tunable.values.size() > kValues)
      return fmt::format("Tunable {} has {} values; at most {} are allowed.", tunable.name,
                         tunable.values.size(), kValues);
  return {};
}

Configuration inherited(const Manifest& child, const Manifest& parent, const Configuration& values) {
  Configuration configuration;
  for (const Tunable& tunable : child.tunables) {
    const auto same = std::ranges::find(parent.tunables, tunable);
    const auto value = values.find(tunable.name);
    if (same != parent.tunables.end() && value != values.end()) configuration.insert(*value);
  }
  return configuration;
}

Move edit_move(const Conversation& c, const BeforeEdits& before) {
  // Computed from the beginning: the number of refusals, and the source that blocks are applied to.
  std::string base = c.parent.source;
  std::optional<Proposal> rest;  // from the last refused answer that had a source
  int refused = before.refused;
  for (std::size_t i = before.turns; i < c.turns.size(); ++i) {
    if (auto end = declined(c.turns[i].answer, c.kit)) return *std::move(end);
    Understood understood = understand(c, base, c.turns[i].answer);
    const bool has_source = understood.proposal.has_value();
    if (has_source && !before.cause.empty())
      understood.proposal->descent.note = noted(said_after("IDEA:", c.turns[i].answer.text), before.cause);
    if (understood.refusal.empty()) {
      const ToolOutcome* const similar = c.turns[i].similar_idea();
      if (!similar) return *std::move(understood.proposal);
      if (i + 1 == c.turns.size())
        return reply_to(c.turns.back(), c.kit.follow_up("similar", similar->text), c.kit);
      continue;  // the next answer counts, also if it repeats the idea
    }
    if (has_source) rest = std::move(understood.proposal), base = rest->source;
    ++refused;
    if (i + 1 < c.turns.size()) continue;
    if (rest && refused > c.kit.resamples()) return *std::move(rest);
    if (!has_source) return ask_again(c, refused, understood.refusal);
    return ask_again(c, refused, understood.refusal,
                     "That source is kept: correct it with SEARCH/REPLACE blocks against it, or send the "
                     "complete source.");
  }
  return GivenUp{"no answer arrived"};
}

}  // namespace cultivar
