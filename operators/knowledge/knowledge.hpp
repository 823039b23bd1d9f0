// Notes for whoever writes the next kernel, picked by what limits the present one. A note is a Markdown file
// that begins with a YAML head between two lines of `---`:
//
//   title: ...               what it is about
//   bottlenecks: [...]       kinds of findings of a profile ("tensor_pipe", "stall_long_scoreboard")
//   warnings: [...]          optional: pieces of compiler output that it helps with
//   targets, tasks, architectures: [...]   optional: where it applies; everywhere if not given
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cultivar {

struct Note {
  std::string name;  // the file's, without .md
  std::string title, body;
  std::vector<std::string> bottlenecks, warnings, targets, tasks, architectures;
};

// All *.md files of the folders but README.md, by name; a later folder's note replaces an earlier one of the
// same name. Throws InputError (file, line, remedy).
std::vector<Note> load_notes(const std::vector<std::filesystem::path>& folders);

// Ours, which are built in; `folders` add to them and replace them.
std::vector<Note> known_notes(const std::vector<std::filesystem::path>& folders = {});

struct Situation {
  std::string target, task;
  std::string architecture;              // "sm_90a"; empty: unknown, then nothing is left out for it
  std::vector<std::string> bottlenecks;  // what weighs most first
  std::string compiler_output;
};

// Those that apply, most helpful first: those that know the compiler's words, then by the rank of the first
// bottleneck they cure. Notes of the task itself fill the end. Pointers into `notes`.
std::vector<const Note*> pick_notes(const std::vector<Note>& notes, const Situation&);

}  // namespace cultivar
