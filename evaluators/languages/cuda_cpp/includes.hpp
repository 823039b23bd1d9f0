// SPDX-License-Identifier: Apache-2.0
// Checks what a source may include, where only its text can be checked: the toolkit's headers.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// The first directive that could open a file outside these folders and the variant's own headers, or that
// cannot be interpreted; empty if there is none. Judges by the text alone, including comments and dead
// branches, so it rejects too much rather than too little.
std::string include_beyond(std::string_view source, const std::vector<std::filesystem::path>& folders);

}  // namespace cultivar
