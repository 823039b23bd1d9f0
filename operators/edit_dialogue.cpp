// SPDX-License-Identifier: Apache-2.0
#include "operators/edit_dialogue.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <optional>

#include "evaluators/variant/variant.hpp"
#include "operators/edits/edits.hpp"
#include "operators/reply.hpp"

namespace cultivar {

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
