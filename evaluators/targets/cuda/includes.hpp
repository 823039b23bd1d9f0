// What a source may include where nothing but its text can be looked at: the toolkit's headers.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// A backslash at the end of a line, blanks behind it too, makes one line of two.
std::string spliced(std::string_view source);

// The first directive that might open a file outside these folders and the variant's own, or that cannot be
// told; empty: none. By the text alone, comments and dead branches included: it refuses too much rather than
// too little.
std::string include_beyond(std::string_view source, const std::vector<std::filesystem::path>& folders);

}  // namespace cultivar
