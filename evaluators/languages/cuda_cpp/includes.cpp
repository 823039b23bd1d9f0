// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/includes.hpp"

#include <algorithm>

#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// True for <cuda_bf16.h> or "cuda/barrier": a plain relative name found in one of the folders, or the
// variant's own header.
bool is_of(std::string_view rest, const std::vector<fs::path>& folders, const SourceFiles& own) {
  if (rest.empty() || (rest.front() != '<' && rest.front() != '"')) return false;
  const std::size_t end = rest.find(rest.front() == '<' ? '>' : '"', 1);
  if (end == rest.npos) return false;
  const fs::path name(std::string(rest.substr(1, end - 1)));
  if (std::any_of(own.headers.begin(), own.headers.end(), [&](const auto& h) { return h.name == name; }))
    return true;
  if (name.is_absolute() || std::find(name.begin(), name.end(), fs::path("..")) != name.end()) return false;
  std::error_code ignored;
  return std::any_of(folders.begin(), folders.end(),
                     [&](const fs::path& folder) { return fs::is_regular_file(folder / name, ignored); });
}

// Joins lines that end in a backslash, with or without trailing blanks.
std::string spliced(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      const std::size_t end = source.find_first_not_of(" \t\v\f\r", i + 1);
      if (end != source.npos && source[end] == '\n') {
        i = end;
        continue;
      }
    }
    text += source[i];
  }
  return text;
}

}  // namespace

std::string include_beyond(std::string_view source, const std::vector<fs::path>& folders) {
  const SourceFiles files = split_source(source);
  const std::string text = spliced(source);
  // Reject other spellings of # and operators that open files in the middle of a line.
  for (const std::string_view odd : {"%:", "?\?=", "__has_include", "__has_embed"})
    if (text.find(odd) != text.npos) return std::string(odd);
  for (std::size_t hash = text.find('#'); hash != text.npos; hash = text.find('#', hash + 1)) {
    const std::size_t begin = text.find_first_not_of(" \t\v\f\r", hash + 1);
    if (begin == text.npos) break;
    const std::string_view rest = std::string_view(text).substr(begin);
    const std::string shown(text.substr(hash, std::min(text.find('\n', hash), hash + 100) - hash));
    if (rest.starts_with("/*")) return shown;  // a comment between # and the name of the directive
    for (const std::string_view word : {"include_next", "include", "import", "embed"}) {
      if (!rest.starts_with(word)) continue;
      const std::string_view behind = rest.substr(word.size());
      const std::size_t name = behind.find_first_not_of(" \t");
      if (word != "include" || name == behind.npos || !is_of(behind.substr(name), folders, files))
        return shown;
      break;
    }
  }
  return {};
}

}  // namespace cultivar
