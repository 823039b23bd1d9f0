#include "operators/prompts/prompt_kit.hpp"

#include <algorithm>

#include "embedded/prompt_templates.hpp"
#include "evaluators/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace {

// Every template with its slots; what has none here is a piece, put in as it is.
const std::map<std::string, std::vector<std::string>>& slots() {
  static const std::map<std::string, std::vector<std::string>> all{
      {"system", {"format", "task", "oracle", "device"}},
      {"system_brief", {"format", "task", "device"}},
      {"mutate",
       {"parent", "report", "standing", "best", "lineage", "failures", "notes", "direction", "reach",
        "answer"}},
      {"crossover",
       {"parent", "partner", "comparison", "report", "standing", "lineage", "failures", "notes", "direction",
        "same", "answer"}},
      {"critique", {"parent", "evidence", "standing", "origin", "lineage", "notes", "direction"}},
      {"agent", {"parent", "report", "standing", "lineage", "failures", "notes", "direction", "budget"}},
      {"agent_refused", {"reason"}},
      {"agent_last", {"reason"}},
      {"repair", {"answer"}},
      {"refused", {"reason"}}};
  return all;
}

}  // namespace

PromptKit::PromptKit(PromptOptions options, const std::map<std::string, std::string>& texts,
                     std::vector<Note> notes)
    : options_(options), notes_(std::move(notes)) {
  std::vector<std::string> known;
  for (const auto& [file, text] : prompt_templates::all) {
    known.emplace_back(file);
    texts_[std::string(file)] = text;
  }
  for (const auto& [file, text] : texts) {
    if (std::ranges::find(known, file) == known.end())
      throw InputError("no prompt is called '" + file + "'" + did_you_mean(file, known));
    texts_[file] = text;
  }
  for (const auto& [name, names] : slots())
    templates_.emplace(name, PromptTemplate(texts_.at(name + ".md"), name + ".md", names));
}

const PromptTemplate& PromptKit::named(const std::string& name) const {
  return templates_.at(name);
}

const std::string& PromptKit::piece(const std::string& name) const {
  return texts_.at(name + ".md");
}

std::string PromptKit::follow_up(const std::string& name, const std::string& reason) const {
  return named(name)
      .render({{"reason", reason, 0}, {"answer", piece("answer"), 0}}, options_.prompt_tokens)
      .text;
}

}  // namespace cultivar
