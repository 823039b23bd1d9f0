// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/source_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace cultivar {
namespace {

constexpr std::string_view blanks = " \t\r\f\v";
constexpr std::string_view opening = "//// file: ", closing = " ////";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string_view trimmed_start(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text;
}

// Calls `with` for each line, without its line end: its number, where it begins, and where the next line
// begins.
template <typename Call>
void each_line(std::string_view text, Call with) {
  int number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t next = std::min(end + 1, text.size());
    with(text.substr(at, end - at), number, at, next);
    at = next;
  }
}

void append_lines(std::string& to, std::string_view text) {
  to += text;
  if (!to.empty() && !to.ends_with('\n')) to += '\n';
}

std::string marker_of(std::string_view name) {
  return fmt::format("{}{}{}", opening, name, closing);
}

// Names of C and compiler headers that a toolkit's headers include in quotes, or that every reader would
// expect to be those.
constexpr std::array<std::string_view, 36> taken{
    "assert", "complex", "ctype",  "dlfcn",    "errno",   "fcntl",   "fenv",      "float",  "inttypes",
    "iso646", "limits",  "locale", "malloc",   "math",    "memory",  "mma",       "omp",    "pthread",
    "sched",  "setjmp",  "signal", "stdalign", "stdarg",  "stdbool", "stdatomic", "stddef", "stdint",
    "stdio",  "stdlib",  "string", "tgmath",   "threads", "time",    "uchar",     "unistd", "wchar"};

}  // namespace

std::optional<std::string_view> marked_file(std::string_view line) {
  const std::size_t last = line.find_last_not_of(blanks);
  line = line.substr(0, last == line.npos ? 0 : last + 1);
  if (line.size() <= opening.size() + closing.size() || !line.starts_with(opening) ||
      !line.ends_with(closing))
    return std::nullopt;
  const std::string_view name = line.substr(opening.size(), line.size() - opening.size() - closing.size());
  if (name.find_first_of(blanks) != name.npos) return std::nullopt;
  return name;
}

SourceFiles split_source(std::string_view source) {
  SourceFiles files;
  std::size_t begin = 0;
  const auto close = [&](std::size_t end) {
    (files.headers.empty() ? files.main : files.headers.back().text) = source.substr(begin, end - begin);
  };
  each_line(source, [&](std::string_view line, int number, std::size_t at, std::size_t next) {
    const auto name = marked_file(line);
    if (!name) return;
    close(at);
    files.headers.push_back({*name, {}, number});
    begin = next;
  });
  close(source.size());
  return files;
}

std::string fold_source(std::string_view main, const std::vector<HeaderFile>& headers) {
  std::string source(main);
  for (const HeaderFile& header : headers) {
    append_lines(source, {});
    source += marker_of(header.name) + "\n";
    const bool marked = header.text.starts_with(byte_order_mark);
    append_lines(source, header.text.substr(marked ? byte_order_mark.size() : 0));
  }
  return source;
}

std::string header_name_trouble(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot);
  const std::string_view ending = dot == name.npos ? std::string_view() : name.substr(dot);
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if ((ending != ".h" && ending != ".hpp" && ending != ".cuh" && ending != ".inl") || stem.empty() ||
      stem.size() > 60 || !letter(stem.front()) ||
      !std::all_of(stem.begin(), stem.end(), [&](char c) { return letter(c) || c == '-'; }))
    return "is not a valid header name (use letters, digits, _ and -, then .h, .hpp, .cuh or .inl; no "
           "folders)";
  std::string lower(stem);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const bool reserved = lower.starts_with("cuda") || lower.starts_with("cultivar") ||
                        lower.starts_with("nv") || lower.starts_with("cooperative_groups") ||
                        lower.ends_with("intrin") ||
                        std::find(taken.begin(), taken.end(), lower) != taken.end();
  return reserved ? "is the name of a system or toolkit header (choose another)" : "";
}

std::vector<std::pair<std::string_view, int>> quoted_includes(std::string_view text) {
  std::vector<std::pair<std::string_view, int>> found;
  each_line(text, [&](std::string_view line, int number, std::size_t, std::size_t) {
    line = trimmed_start(line);
    if (!line.starts_with('#')) return;
    line = trimmed_start(line.substr(1));
    if (!line.starts_with("include")) return;
    line = trimmed_start(line.substr(std::string_view("include").size()));
    const std::size_t end = line.find('"', 1);
    if (line.starts_with('"') && end != line.npos) found.emplace_back(line.substr(1, end - 1), number);
  });
  return found;
}

tl::expected<void, ManifestError> check_headers(const Manifest& manifest, std::string_view source) {
  std::optional<ManifestError> wrong;
  const auto refuse = [&](int line, std::string message) {
    if (!wrong) wrong = ManifestError{line, std::move(message)};
  };
  each_line(source, [&](std::string_view line, int number, std::size_t, std::size_t) {
    const auto name = marked_file(line);
    if (!name && trimmed_start(line).starts_with("//// file"))
      refuse(number,
             fmt::format("a line that begins with '//// file' must be a header marker: write exactly '{}' "
                         "on that line",
                         marker_of("tile.hpp")));
  });
  const SourceFiles files = split_source(source);
  for (std::size_t i = 0; i < files.headers.size(); ++i) {
    const HeaderFile& header = files.headers[i];
    if (i < manifest.headers.size() && header.name == manifest.headers[i]) continue;
    const bool listed =
        std::find(manifest.headers.begin(), manifest.headers.end(), header.name) != manifest.headers.end();
    refuse(header.marker_line,
           listed ? fmt::format("the header {} appears twice or in a different order than in the manifest's "
                                "`headers` (keep each once, in that order)",
                                header.name)
                  : fmt::format("the manifest does not list the header {} (add it to `headers: [...]`)",
                                header.name));
  }
  if (manifest.headers.size() > files.headers.size())
    refuse(0, fmt::format(
                  "the manifest lists the header {}, but the source has no such section (end the source "
                  "with the line '{}' followed by the header's lines)",
                  manifest.headers[files.headers.size()], marker_of(manifest.headers[files.headers.size()])));
  if (wrong) return tl::make_unexpected(*std::move(wrong));
  // From here on the headers are those of the manifest, a few.
  std::map<std::string_view, std::set<std::string_view>> includers;  // of each name: the including files
  const auto note_includes = [&](std::string_view file, std::string_view text) {
    for (const auto& [name, line] : quoted_includes(text)) includers[name].insert(file);
  };
  note_includes("", files.main);
  for (const HeaderFile& header : files.headers) note_includes(header.name, header.text);
  for (const HeaderFile& header : files.headers) {
    std::set<std::string_view>& by = includers[header.name];
    by.erase(header.name);
    if (by.empty())
      refuse(header.marker_line,
             fmt::format("the header {0} is never included (write #include \"{0}\" where it is needed, or "
                         "remove it and its name from `headers`)",
                         header.name));
  }
  if (wrong) return tl::make_unexpected(*std::move(wrong));
  return {};
}

std::string place_of(std::string_view source, std::string_view main, int line) {
  const SourceFiles files = split_source(source);
  for (auto header = files.headers.rbegin(); header != files.headers.rend(); ++header)
    if (line >= header->marker_line)
      return fmt::format("{}:{}", header->name, std::max(1, line - header->marker_line));
  return fmt::format("{}:{}", main, std::max(1, line));
}

}  // namespace cultivar
