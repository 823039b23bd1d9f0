// SPDX-License-Identifier: Apache-2.0
#include "operators/knowledge/knowledge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "embedded/knowledge_notes.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

Note parse_note(const std::string& text, const fs::path& file) {
  const std::size_t end = text.starts_with("---\n") ? text.find("\n---\n", 3) : std::string::npos;
  if (end == std::string::npos)
    throw InputError(
        file.string() +
        ":1: a note must start with a YAML header between two lines of --- (title, bottlenecks; see "
        "operators/knowledge/README.md)");
  // Replace the first --- by an empty line, so that line numbers match the file.
  YamlMap head = parse_yaml(text.substr(3, end - 2), file.string()).map();
  Note note;
  note.name = file.stem().string();
  note.title = head.require("title").string();
  note.bottlenecks = head.require("bottlenecks").strings();
  const auto list = [&](std::string_view key) {
    const auto node = head.optional(key);
    return node ? node->strings() : std::vector<std::string>();
  };
  note.warnings = list("warnings");
  note.targets = list("targets");
  note.tasks = list("tasks");
  note.architectures = list("architectures");
  note.intensity = list("intensity");
  note.unless = list("unless");
  for (const std::string& each : note.intensity)
    if (each != "low" && each != "medium" && each != "high")
      throw InputError(fmt::format("{}: intensity: '{}' is none of low, medium, high", file.string(), each));
  head.finish();
  note.body = text.substr(end + 5);
  return note;
}

// Smaller is better; nullopt: the note does not apply.
constexpr int says_nothing = 1 << 20;
int rank_of(const Note& note, const NoteQuery& situation) {
  const auto knows = [&](const std::string& words) {
    return situation.compiler_output.find(words) != std::string::npos;
  };
  if (std::any_of(note.warnings.begin(), note.warnings.end(), knows)) return 0;
  for (std::size_t i = 0; i < situation.bottlenecks.size(); ++i)
    if (contains(note.bottlenecks, situation.bottlenecks[i])) return 1 + static_cast<int>(i);
  if (contains(note.tasks, situation.task)) return 1 + static_cast<int>(situation.bottlenecks.size());
  return says_nothing;
}

bool applies(const Note& note, const NoteQuery& situation) {
  const auto allows = [](const std::vector<std::string>& list, const std::string& item) {
    return list.empty() || item.empty() || std::any_of(list.begin(), list.end(), [&](const std::string& one) {
             return item.starts_with(one);
           });
  };
  return (note.targets.empty() || contains(note.targets, situation.target)) &&
         (note.tasks.empty() || contains(note.tasks, situation.task)) &&
         std::none_of(
             note.unless.begin(), note.unless.end(),
             [&](const std::string& word) { return situation.source.find(word) != std::string::npos; }) &&
         allows(note.architectures, situation.architecture) && allows(note.intensity, situation.intensity);
}

}  // namespace

namespace {

void add_notes_of(const std::vector<fs::path>& folders, std::map<std::string, Note>& by_name) {
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder))
      throw InputError(folder.string() +
                       ": not a readable folder of notes; check that it exists, and its permissions");
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path& file = entry.path();
      if (file.extension() != ".md" || file.filename() == "README.md") continue;
      const auto text = read_file(file);
      if (!text) throw InputError(text.error().message);
      Note note = parse_note(*text, file);
      by_name[note.name] = std::move(note);
    }
  }
}

std::vector<Note> listed(std::map<std::string, Note>&& by_name) {
  std::vector<Note> notes;
  notes.reserve(by_name.size());
  for (auto& [name, note] : by_name) notes.push_back(std::move(note));
  return notes;
}

}  // namespace

std::string intensity_class(double operations_per_byte, double ridge) {
  constexpr double kLow = 8.0, kUsualRidge = 128.0;
  if (!(operations_per_byte > 0.0)) return {};
  if (operations_per_byte < kLow) return "low";
  return operations_per_byte < (ridge > 0.0 ? ridge : kUsualRidge) ? "medium" : "high";
}

std::vector<Note> load_notes(const std::vector<fs::path>& folders) {
  std::map<std::string, Note> by_name;
  add_notes_of(folders, by_name);
  return listed(std::move(by_name));
}

std::vector<Note> known_notes(const std::vector<fs::path>& folders) {
  std::map<std::string, Note> by_name;
  for (const auto& [file, text] : knowledge_notes::all) {
    Note note = parse_note(std::string(text), fs::path(std::string(file)));
    by_name[note.name] = std::move(note);
  }
  add_notes_of(folders, by_name);
  return listed(std::move(by_name));
}

std::vector<const Note*> pick_notes(const std::vector<Note>& notes, const NoteQuery& situation) {
  std::vector<std::pair<int, const Note*>> ranked;
  for (const Note& note : notes)
    if (const int rank = rank_of(note, situation); applies(note, situation) && rank < says_nothing)
      ranked.emplace_back(rank, &note);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Note*> picked;
  picked.reserve(ranked.size());
  for (const auto& [rank, note] : ranked) picked.push_back(note);
  return picked;
}

}  // namespace cultivar
