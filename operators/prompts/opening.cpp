// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/opening.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace cultivar {

namespace {

// The oracle in C++ repeats what the task states, and much of what it does is bookkeeping: it comes with the
// evidence of a wrong result. One in Python is the user's own function.
std::string oracle_for_everyone(const Task& task) {
  return task.reference.extension() == ".cpp" ? std::string() : describe_oracle(task);
}

// Whether the manifest at the top of one of these texts shows how everything is written that a manifest
// usually has.
bool shows_format(const std::vector<Piece>& pieces) {
  return std::ranges::any_of(pieces, [](const Piece& piece) {
    const std::size_t end = piece.text.find("---*/");
    if (piece.rank != 0 || end == std::string::npos) return false;
    const std::string_view manifest = std::string_view(piece.text).substr(0, end);
    constexpr std::array kKeys{"\ntunables:", "\nconstraints:", "\nlet:", "\nlaunch:"};
    return std::ranges::all_of(kKeys, [&](const char* key) { return manifest.find(key) != manifest.npos; });
  });
}

// The language of the first kernel that a question shows; the target's first if it shows none.
Language language_of_question(const std::vector<Piece>& pieces, Target target) {
  for (const Piece& piece : pieces)
    if (const std::size_t at = find_manifest_opening(piece.text); piece.rank == 0 && at != piece.text.npos)
      return language_of(std::string_view(piece.text).substr(at), usual_language(target));
  return usual_language(target);
}

std::string system_text(const PromptContext& s, const PromptKit& kit, Language language, bool whole,
                        bool by_example = false) {
  if (!whole)
    return kit.named("system_brief")
        .render({{"format", kit.piece("format_brief"), 0},
                 {"task", describe_task_briefly(s.task, s.workloads), 0},
                 {"device", describe_device_briefly(s.device, s.facts), 0}},
                kit.options().prompt_tokens)
        .text;
  return kit.named("system")
      .render({{"format", by_example ? kit.piece("format_brief") : kit.format_of(language), 0},
               {"task", describe_task(s.task, s.workloads, s.target, false), 0},
               {"oracle", oracle_for_everyone(s.task), 0},
               {"device", describe_device(s.device, s.facts, s.seen), 0}},
              kit.options().prompt_tokens)
      .text;
}

// The limit of a question whose required pieces take this many tokens: they may exceed it, and leave a third
// of it for what they would be useless without, such as measurements.
std::int64_t room_beside(std::int64_t required, std::int64_t limit) {
  return std::clamp(required + limit / 3, limit, kMostOverBudget * limit);
}

}  // namespace

ChatRequest opening(const PromptTemplate& page, std::vector<Piece> pieces, const PromptContext& context,
                    const PromptKit& kit, std::vector<std::string>* left_out) {
  std::int64_t budget = kit.options().prompt_tokens;
  // Without optional pieces, the complete system text must leave room for the question's subject.
  std::vector<Piece> needed;
  std::ranges::copy_if(pieces, std::back_inserter(needed), [](const Piece& p) { return p.rank <= 4; });
  const Language language = language_of_question(pieces, context.target);
  const bool by_example = context.target->on_host && shows_format(pieces);
  std::string system = system_text(context, kit, language, true, by_example);
  if (page.render(needed, budget).tokens + estimated_tokens(system) > budget) {
    system = system_text(context, kit, language, false);
    budget = room_beside(page.render(needed, 0).tokens + estimated_tokens(system), budget);
    // The complete rules of the format, if there is room: ranked before failures and notes.
    constexpr int kAfterLineage = 5;
    pieces.push_back({"notes", "## The complete format of a kernel\n\n" + kit.format_of(language),
                      kAfterLineage, "format in full"});
  }
  const Prompt user = page.render(pieces, budget - estimated_tokens(system));
  if (left_out) *left_out = user.left_out;
  ChatRequest request;
  request.system.push_back({system, true});
  request.messages.push_back({ChatRole::user, user.text});
  request.max_output_tokens = kit.options().output_tokens;
  return request;
}

std::string beyond_budget(const ChatRequest& question, const PromptKit& kit) {
  std::int64_t tokens = 0;
  for (const ChatText& part : question.system) tokens += estimated_tokens(part.text);
  for (const ChatMessage& message : question.messages) tokens += estimated_tokens(message.text);
  const std::int64_t budget = kit.options().prompt_tokens;
  if (tokens <= kMostOverBudget * budget) return {};
  return fmt::format(
      "skipped: a question about this kernel has about {} tokens, more than {} times asking.prompt_tokens "
      "({}); to ask about it, start a run with asking.prompt_tokens: {}",
      tokens, kMostOverBudget, budget, (tokens / kMostOverBudget / 1000 + 1) * 1000);
}

}  // namespace cultivar
