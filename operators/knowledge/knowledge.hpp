// SPDX-License-Identifier: Apache-2.0
// Notes for the author of the next kernel, selected by the bottleneck of the current one. A note is a
// Markdown file that starts with a YAML header between two lines of `---`:
//
//   title: ...               the note's topic
//   bottlenecks: [...]       kinds of findings of a profile ("tensor_pipe", "stall_long_scoreboard")
//   warnings: [...]          optional: parts of compiler messages that it explains
//   targets, tasks, architectures: [...]   optional: where it applies; everywhere if omitted
//   unless: [...]            optional: words of a source that does already what the note advises
//   intensity: [low, medium, high]         optional: for tasks of this arithmetic intensity (see below)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cultivar {

struct Note {
  std::string name;  // the file's name without .md
  std::string title, body;
  std::vector<std::string> bottlenecks, warnings, targets, tasks, architectures, intensity, unless;
};

// All *.md files of the folders except README.md, by name; a later folder's note replaces an earlier one with
// the same name. Throws InputError (file, line, remedy).
std::vector<Note> load_notes(const std::vector<std::filesystem::path>& folders);

// The built-in notes; `folders` add notes and replace notes with the same name.
std::vector<Note> known_notes(const std::vector<std::filesystem::path>& folders = {});

struct NoteQuery {
  std::string target, task;
  std::string architecture;              // "sm_90a"; empty: unknown, then no note is excluded by architecture
  std::vector<std::string> bottlenecks;  // most important first
  std::string compiler_output;
  std::string intensity;    // "low", "medium", "high"; empty: unknown, then no note is excluded by it
  std::string source = {};  // of the kernel
};

// The class of a task that does so many operations for each byte that it must move: low below 8 (row kernels,
// elementwise), high from the device's own ratio of peak rates on (`ridge`; 0: unknown, then 128), where
// arithmetic can be the limit, and medium in between (products with few rows).
std::string intensity_class(double operations_per_byte, double ridge);

// The notes that apply, most relevant first: those that match compiler messages, then by the rank of the
// first matching bottleneck, then notes for the task. Pointers into `notes`.
std::vector<const Note*> pick_notes(const std::vector<Note>& notes, const NoteQuery&);

}  // namespace cultivar
