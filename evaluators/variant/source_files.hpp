// SPDX-License-Identifier: Apache-2.0
// A variant's source as files. Everywhere (record, prompts, edits, identity) a source is one text: the main
// file, followed by each header that its manifest lists. A marker line starts each header:
//
//   //// file: tile.cuh ////
//
// On disk a header lies beside the main file or where the task keeps its own. Pure functions of
// text; variant.cpp reads the files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct HeaderFile {
  std::string_view name, text;
  int marker_line = 0;  // line of the whole text, 1-based; the header's line 1 is the next line
};

struct SourceFiles {  // refers to the source
  std::string_view main;
  std::vector<HeaderFile> headers;
};

// Splits a source at its marker lines without checking anything. Lines of `main` keep their numbers in the
// source.
SourceFiles split_source(std::string_view source);
// The inverse of split_source. Each text gets a final newline; headers lose a byte order mark.
std::string fold_source(std::string_view main, const std::vector<HeaderFile>& headers);

// The name in a line "//// file: NAME ////", which must start at column 1 and contain nothing else.
std::optional<std::string_view> marked_file(std::string_view line);
// What is wrong with a header's name; empty if nothing. It must be one path component, and not the name of a
// compiler's or toolkit's header.
std::string header_name_trouble(std::string_view name);
// The names in `#include "..."` lines, with their line numbers; judged by the text alone, including dead
// branches.
std::vector<std::pair<std::string_view, int>> quoted_includes(std::string_view text);

// Checks that the sections are those that the manifest lists, in its order, and that each is included
// somewhere.
tl::expected<void, ManifestError> check_headers(const Manifest&, std::string_view source);

// For example "tile.cuh:3" for a line of the whole text. `main` is the name of the main file.
std::string place_of(std::string_view source, std::string_view main, int line);

inline constexpr std::size_t most_headers = 16, most_source_bytes = 1 << 20, most_manifest_bytes = 1 << 16;

}  // namespace cultivar
