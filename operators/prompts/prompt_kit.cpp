// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt_kit.hpp"

#include <algorithm>
#include <filesystem>

#include "embedded/prompt_templates.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

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
