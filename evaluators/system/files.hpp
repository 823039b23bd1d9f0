// Reads and writes whole files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "evaluators/system/error.hpp"

namespace cultivar {

Expected<std::string> read_file(const std::filesystem::path&);

// Writes a temporary file beside `file` (creating the folder if missing), syncs, renames, and syncs the
// folder: at any instant `file` is complete, old or new. Safe for concurrent use by threads and processes.
Expected<void> write_atomically(const std::filesystem::path& file, std::string_view bytes);
// The second half: syncs a complete file with another name in the same folder and renames it.
Expected<void> put_in_place(const std::filesystem::path& temporary, const std::filesystem::path& file);

}  // namespace cultivar
