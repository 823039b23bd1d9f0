// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt.hpp"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string_view>

#include "embedded/prompt_templates.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

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

namespace mustache = kainjow::mustache;

std::int64_t estimated_tokens(std::string_view text) {
  return (static_cast<std::int64_t>(text.size()) + 2) / 3;
}

namespace {

// {{slot}}, {{#slot}}, {{! a comment}}: the sign, and the name
const std::regex& tag() {
  static const std::regex pattern(R"(\{\{([{#/^&>=]?)\s*([^}\s]*))");
  return pattern;
}

}  // namespace

std::vector<std::string> slots_of(const std::string& text) {
  std::vector<std::string> slots;
  for (std::sregex_iterator at(text.begin(), text.end(), tag()), end; at != end; ++at)
    if (const std::string name = (*at)[2];
        !name.starts_with('!') && std::ranges::find(slots, name) == slots.end())
      slots.push_back(name);
  return slots;
}

PromptTemplate::PromptTemplate(std::string text, std::string origin, const std::vector<std::string>& slots)
    : text_(std::move(text)) {
  for (std::sregex_iterator at(text_.begin(), text_.end(), tag()), end; at != end; ++at) {
    const std::string sign = (*at)[1], name = (*at)[2];
    const auto line = 1 + std::count(text_.begin(), text_.begin() + at->position(), '\n');
    if (name.starts_with('!')) continue;
    if (sign == ">" || sign == "=")
      throw InputError(
          fmt::format("{}:{}: '{{{{{}' is not supported in prompts; use slots, sections and comments", origin,
                      line, sign));
    if (std::find(slots.begin(), slots.end(), name) == slots.end())
      throw InputError(
          fmt::format("{}:{}: there is no slot '{}'{}", origin, line, name, did_you_mean(name, slots)));
  }
  if (const mustache::mustache parsed(text_); !parsed.is_valid())
    throw InputError(fmt::format("{}: {}; braces of code must be in a piece, not in the template", origin,
                                 parsed.error_message()));
}

std::string PromptTemplate::filled(const std::vector<Piece>& pieces) const {
  mustache::data data;
  std::vector<std::string> slots;
  for (const Piece& piece : pieces)
    if (std::find(slots.begin(), slots.end(), piece.slot) == slots.end()) slots.push_back(piece.slot);
  for (const std::string& slot : slots) {
    std::string text;
    for (const Piece& piece : pieces) {
      if (piece.slot != slot) continue;
      if (!text.empty()) text += text.ends_with('\n') ? "\n" : "\n\n";
      text += piece.text;
    }
    while (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) data.set(slot, text);
  }
  mustache::mustache parsed(text_);
  parsed.set_custom_escape([](const std::string& text) { return text; });
  return parsed.render(data);
}

Prompt PromptTemplate::render(std::vector<Piece> pieces, std::int64_t budget_tokens) const {
  Prompt prompt;
  for (;;) {
    prompt.text = filled(pieces);
    prompt.tokens = estimated_tokens(prompt.text);
    if (prompt.tokens <= budget_tokens) return prompt;
    const auto least = std::max_element(pieces.rbegin(), pieces.rend(),
                                        [](const Piece& a, const Piece& b) { return a.rank < b.rank; });
    if (least == pieces.rend() || least->rank == 0) return prompt;
    prompt.left_out.push_back(least->name.empty() ? least->slot : least->name);
    pieces.erase(std::next(least).base());
  }
}

PromptKit::PromptKit(PromptOptions options, const std::map<std::string, std::string>& texts,
                     std::vector<Note> notes)
    : options_(options), notes_(std::move(notes)) {
  std::vector<std::string> known;
  std::map<std::string, std::vector<std::string>> slots;  // by file name
  const auto add = [&](std::string_view file, std::string_view text) {
    known.emplace_back(file);
    texts_[std::string(file)] = text;
    if (auto named = slots_of(std::string(text)); !named.empty()) slots.emplace(file, std::move(named));
  };
  for (const auto& [file, text] : prompt_templates::all) add(file, text);
  for (const Language language : languages())
    if (!language->format.first.empty()) add(language->format.first, language->format.second);
  std::ranges::sort(known);
  for (const auto& [file, text] : texts) {
    if (std::ranges::find(known, file) == known.end())
      throw InputError("there is no prompt '" + file + "'" + did_you_mean(file, known));
    texts_[file] = text;
  }
  for (const auto& [file, names] : slots)
    templates_.emplace(std::filesystem::path(file).stem().string(),
                       PromptTemplate(texts_.at(file), file, names));
}

const PromptTemplate& PromptKit::named(const std::string& name) const {
  return templates_.at(name);
}

const std::string& PromptKit::piece(const std::string& name) const {
  return texts_.at(name + ".md");
}

const std::string& PromptKit::format_of(Language language) const {
  const std::string_view own = language->format.first;
  return own.empty() ? piece("format_brief") : texts_.at(std::string(own));
}

bool PromptKit::offers_decline() const {
  return piece("answer").find(kDecline) != std::string::npos;
}

std::string PromptKit::follow_up(const std::string& name, const std::string& reason) const {
  return named(name)
      .render({{"reason", reason, 0}, {"answer", piece("answer"), 0}}, options_.prompt_tokens)
      .text;
}

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
