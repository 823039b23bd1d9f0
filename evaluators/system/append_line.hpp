// SPDX-License-Identifier: Apache-2.0
// Appends to a file that several processes write.
#pragma once

#include <filesystem>
#include <string_view>

#include "evaluators/system/error.hpp"

namespace cultivar {

// One write of the line with its line end, so that lines of several writers stay whole. Makes the file if it
// is missing. Fails, with the file's name, if it is not a regular file (a link, a pipe, a folder) or would
// become larger than `most` bytes.
Expected<void> append_line(const std::filesystem::path&, std::string_view line, std::size_t most);

}  // namespace cultivar
