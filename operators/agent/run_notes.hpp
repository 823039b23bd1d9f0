// SPDX-License-Identifier: Apache-2.0
// Notes that the conversations about one run leave for each other: a text file with one note a line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

inline constexpr std::size_t kMostRunNote = 1000,
                             kMostRunNotes = 100;  // bytes of a note; notes that are shown

// Appends one line; several processes may do so at once. `note` has no line breaks. Refused if the file has
// more than a mebibyte, or is no regular file.
Expected<void> add_run_note(const std::filesystem::path& file, const std::string& note);
// The newest, oldest first. Empty if there is no readable file.
std::vector<std::string> run_notes_in(const std::filesystem::path& file);

}  // namespace cultivar
