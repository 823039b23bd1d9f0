// SPDX-License-Identifier: Apache-2.0
// Reads and writes whole files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "evaluators/system/error.hpp"

namespace cultivar {

inline constexpr std::size_t most_file_bytes = std::size_t{1} << 30;

// A whole regular file of at most `most` bytes; `most` also bounds a file that grows while it is read.
// Anything else (a folder, a pipe, a socket, a device) is an error, and is never waited for.
Expected<std::string> read_file(const std::filesystem::path&, std::size_t most = most_file_bytes);
// For a folder to which others write: a symbolic link is an error too, because it could name any file of the
// machine.
Expected<std::string> read_unlinked_file(const std::filesystem::path&, std::size_t most);

// Writes a temporary file beside `file` (creating the folder if missing), syncs, renames, and syncs the
// folder: at any instant `file` is complete, old or new. Safe for concurrent use by threads and processes.
Expected<void> write_atomically(const std::filesystem::path& file, std::string_view bytes);
// The second half: syncs a complete file with another name in the same folder and renames it.
Expected<void> put_in_place(const std::filesystem::path& temporary, const std::filesystem::path& file);
// Like write_atomically(), but a file that is already there stays, and nothing is synced: after a power
// failure the file may be incomplete. False: it was there.
Expected<bool> write_if_missing(const std::filesystem::path& file, std::string_view bytes);

// One write of the line with its line end, so that lines of several writers stay whole. Makes the file if it
// is missing. Fails, with the file's name, if it is not a regular file (a link, a pipe, a folder) or would
// become larger than `most` bytes.
Expected<void> append_line(const std::filesystem::path&, std::string_view line, std::size_t most);

}  // namespace cultivar
