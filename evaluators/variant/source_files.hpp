// A variant's source as files. Everywhere (record, prompts, edits, identity) a source is one text: the main
// file, and below it each header that its manifest lists, opened by a line of its own:
//
//   //// file: tile.cuh ////
//
// On disk a header lies beside the main file. Pure functions of text; reading files is in load_variant.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct HeaderFile {
  std::string_view name, text;
  int marker_line = 0;  // of the whole text, 1-based: the header's line 1 is the next
};

struct SourceFiles {  // refers to the source
  std::string_view main;
  std::vector<HeaderFile> headers;
};

// Cuts a source at its marker lines; judges nothing. Lines of `main` have the numbers they have in the
// source.
SourceFiles split_source(std::string_view source);
// The opposite. Texts get a final newline, headers lose a byte order mark.
std::string fold_source(std::string_view main, const std::vector<HeaderFile>& headers);

// The name in "//// file: NAME ////", which stands at the beginning of its line and alone there.
std::optional<std::string_view> marked_file(std::string_view line);
// What is wrong with a header's name, in words; empty: nothing. One path component, none that a compiler's or
// a toolkit's own header has.
std::string header_name_trouble(std::string_view name);
// Names in the source's `#include "..."` lines, with the line of each; by the text alone, dead branches
// included.
std::vector<std::pair<std::string_view, int>> quoted_includes(std::string_view text);

// The sections are what the manifest lists, in its order, and each is included somewhere.
tl::expected<void, ManifestError> check_headers(const Manifest&, std::string_view source);

// "tile.cuh:3" for a line of the whole text; `main`: what the main file is called.
std::string place_of(std::string_view source, std::string_view main, int line);

inline constexpr std::size_t most_headers = 16, most_source_bytes = 1 << 20;

}  // namespace cultivar
