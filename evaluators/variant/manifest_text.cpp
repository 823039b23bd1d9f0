// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/manifest_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

int line_at(std::string_view text, std::size_t position) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
}

// Blank lines and comments of one line may precede the manifest; returns the position of the first other
// text.
std::size_t after_preamble(std::string_view source, std::string_view comment) {
  std::size_t at = source.starts_with("\xef\xbb\xbf") ? 3 : 0;
  while (at < source.size()) {
    if (std::string_view(" \t\r\n").find(source[at]) != std::string_view::npos) {
      ++at;
    } else if (source.substr(at).starts_with(comment)) {
      at = std::min(source.find('\n', at), source.size());
    } else {
      break;
    }
  }
  return at;
}

// Sources are stored in records and JSON, so they must be UTF-8.
std::optional<std::size_t> first_that_is_not_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t more = lead < 0x80       ? 0
                             : lead >> 5 == 6  ? 1
                             : lead >> 4 == 14 ? 2
                             : lead >> 3 == 30 ? 3
                                               : 4;
    if (more == 4 || at + more >= text.size()) return at;
    for (std::size_t i = 1; i <= more; ++i)
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return at;
    at += more + 1;
  }
  return std::nullopt;
}

}  // namespace

tl::expected<ManifestText, ManifestError> find_manifest(std::string_view source) {
  const auto wrong = [](int line, std::string message) {
    return tl::make_unexpected(ManifestError{line, std::move(message)});
  };
  if (source.size() > most_source_bytes)
    return wrong(0, fmt::format("the source is longer than the limit of {} bytes", most_source_bytes));
  if (source.find('\0') != std::string_view::npos)
    return wrong(0, "the source contains a zero byte (save it as text)");
  if (const auto bad = first_that_is_not_utf8(source))
    return wrong(line_at(source, *bad), "a character is not valid UTF-8 (save the file as UTF-8)");
  const CommentSyntax& comments = comments_in(source);
  const std::string manifest_opening = comments.manifest_opening();
  const std::string manifest_closing = comments.manifest_closing();
  const std::size_t begin = after_preamble(source, comments.line);
  if (!source.substr(begin).starts_with(manifest_opening)) {
    if (const std::size_t later = source.find(manifest_opening); later != std::string_view::npos)
      return wrong(line_at(source, later),
                   fmt::format("the manifest must come before all code (move the comment "
                               "that begins with '{}' to the top)",
                               manifest_opening));
    std::string ways;  // of all languages: without a manifest, nothing says which it is
    for (const Language language : languages())
      if (const std::string way = fmt::format("'{}', YAML lines, '{}'", language->comments.manifest_opening(),
                                              language->comments.manifest_closing());
          ways.find(way) == ways.npos)
        ways += (ways.empty() ? "" : ", or ") + way;
    return wrong(1, fmt::format("the manifest is missing (begin the file with {})", ways));
  }
  const std::size_t yaml = source.find('\n', begin);
  const std::size_t end = source.find(manifest_closing, begin);
  if (end == std::string_view::npos || yaml == std::string_view::npos)
    return wrong(line_at(source, begin),
                 fmt::format("the manifest comment is not closed (end it with '{}')", manifest_closing));
  if (end - begin > most_manifest_bytes)
    return wrong(line_at(source, begin),
                 fmt::format("the manifest is longer than the limit of {} bytes", most_manifest_bytes));
  if (yaml > end)
    return wrong(line_at(source, begin), "the manifest must start on the line after the opening marker");
  const std::string_view rest =
      source.substr(begin + manifest_opening.size(), yaml - begin - manifest_opening.size());
  if (rest.find_first_not_of(" \t\r") != std::string_view::npos)
    return wrong(line_at(source, begin),
                 fmt::format("the line of the opening marker must be exactly '{}'", manifest_opening));
  // Inside a comment the compiler does not recognize strings: everything after the first end is code.
  const std::string& closing = comments.closing;
  const std::size_t early = source.find(closing, begin + comments.opening.size());
  if (early < end)
    return wrong(line_at(source, early),
                 fmt::format("'{0}' ends the manifest comment before its '{1}' (write it with "
                             "a blank, '{2} {3}', even inside strings)",
                             closing, manifest_closing, closing.substr(0, 1), closing.substr(1)));
  const std::string_view before = source.substr(0, end);
  if (before.substr(before.rfind('\n') + 1).find_first_not_of(" \t") != std::string_view::npos)
    return wrong(line_at(source, end),
                 fmt::format("'{}' ends the manifest in the middle of a line (put it on a separate line, "
                             "not in a string)",
                             manifest_closing));
  return ManifestText{source.substr(yaml + 1, end - yaml - 1), line_at(source, yaml + 1),
                      source.substr(end + manifest_closing.size()), comments};
}

YamlNode manifest_tree(const ManifestText& text) {
  return parse_yaml(text.yaml, "manifest", text.first_line);
}

int line_of(std::string_view source, std::string_view path) {
  const auto text = find_manifest(source);
  if (!text) return text.error().line;
  try {
    YamlNode node = manifest_tree(*text);
    int line = node.line();
    while (!path.empty()) {
      if (path.front() == '.') path.remove_prefix(1);
      if (path.front() == '[') {
        std::size_t index = 0;
        std::from_chars(path.data() + 1, path.data() + path.size(), index);
        path.remove_prefix(std::min(path.find(']') + 1, path.size()));
        const std::vector<YamlNode> items = node.is_sequence() ? node.items() : std::vector<YamlNode>{};
        if (index >= items.size()) return line;
        node = items[index];
      } else {
        const std::string key(path.substr(0, path.find_first_of(".[")));
        path.remove_prefix(key.size());
        if (!node.is_map()) return line;
        const auto value = node.map().optional(key);
        if (!value) return line;
        node = *value;
      }
      line = node.line();
    }
    return line;
  } catch (const YamlError& error) {
    return error.line();
  }
}

}  // namespace cultivar
