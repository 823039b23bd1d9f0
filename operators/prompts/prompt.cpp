// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt.hpp"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "embedded/prompt_templates.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

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

}  // namespace cultivar
