// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/run_notes.hpp"

#include "evaluators/system/append_line.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/lines.hpp"
#include "operators/prompts/one_line.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

Expected<void> add_run_note(const std::filesystem::path& file, const std::string& note) {
  return append_line(file, one_line_of(note, kMostRunNote), kMostBytes);
}

std::vector<std::string> run_notes_in(const std::filesystem::path& file) {
  const auto text = read_unlinked_file(file, 2 * kMostBytes);
  if (!text) return {};
  std::vector<std::string> notes;
  for (const std::string_view line : lines_of(*text))
    if (!line.empty()) notes.push_back(one_line_of(line, kMostRunNote));
  if (notes.size() > kMostRunNotes)
    notes.erase(notes.begin(), notes.end() - static_cast<std::ptrdiff_t>(kMostRunNotes));
  return notes;
}

}  // namespace cultivar
