// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

constexpr std::size_t most_ptx_lines = 8;

bool has(std::string_view text, std::string_view what) {
  return text.find(what) != text.npos;
}

// 78 for "ptxas application ptx input, line 78; error : ..."; 0 if the message names no line of PTX.
std::size_t ptx_line(std::string_view line) {
  const std::size_t at = line.find(", line ");
  if (!line.starts_with("ptxas") || at == line.npos) return 0;
  return std::strtoul(std::string(line.substr(at + 7, 10)).c_str(), nullptr, 10);
}

// The name in `.file N "..."` if it is one of the variant's own files; empty if it is missing or a toolkit's.
std::string_view own_file(const std::vector<std::string_view>& ptx, unsigned long number) {
  for (const std::string_view line : ptx) {
    const std::size_t at = line.find(".file"), begin = line.find('"'), end = line.rfind('"');
    if (at == line.npos || begin == end) continue;
    if (std::strtoul(std::string(line.substr(at + 5, begin - at - 5)).c_str(), nullptr, 10) != number)
      continue;
    const std::string_view path = line.substr(begin + 1, end - begin - 1);
    return has(path, "/include/") ? std::string_view() : path.substr(path.rfind('/') + 1);
  }
  return {};
}

// The source position from which a line of PTX was generated: "variant.cu(12)"; empty if unknown.
std::string source_place(const std::vector<std::string_view>& ptx, std::size_t line) {
  for (std::size_t i = line; i > 0; --i) {
    const std::size_t at = ptx[i - 1].find(".loc");
    if (at == std::string_view::npos) continue;
    const std::string numbers(ptx[i - 1].substr(at + 4));
    char* end = nullptr;
    const std::string_view file = own_file(ptx, std::strtoul(numbers.c_str(), &end, 10));
    if (!file.empty()) return fmt::format("{}({})", file, std::strtoul(end, nullptr, 10));
  }
  return {};
}

// True for NVRTC's built-in headers and for names with a folder; a variant's own files have plain names.
bool of_toolkit(std::string_view file) {
  return file.starts_with("__nv_") || has(file, "/");
}

bool uses_name(std::string_view line, std::string_view name) {
  const auto part = [&](std::size_t at) {
    return at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) != 0 || line[at] == '_');
  };
  for (std::size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1))
    if (!(at > 0 && part(at - 1)) && !part(at + name.size())) return true;
  return false;
}

}  // namespace

std::string first_error(std::string_view log) {
  const auto lines = lines_of(log);
  for (const std::string_view line : lines)
    if (has(line, "error:") || has(line, "error   :") || has(line, "fatal") || has(line, "catastrophic"))
      return std::string(line);
  return lines.empty() ? "NVRTC gave no reason" : std::string(lines.front());
}

std::string colliding_macro(std::string_view log, const std::vector<std::string>& macros) {
  const auto lines = lines_of(log);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::size_t error = lines[i].find("error: ");
    if (error == std::string_view::npos) continue;
    if (!of_toolkit(lines[i].substr(0, std::min(lines[i].find('('), error)))) return {};
    for (const std::string& macro : macros)
      if (const auto name = macro.substr(0, macro.find('=')); uses_name(lines[i + 1], name)) return name;
  }
  return {};
}

std::string repair_words(std::string_view log, std::string_view ptx, std::size_t most_bytes) {
  std::string words = cut(without_times(log), most_bytes);
  const auto code = lines_of(ptx);
  std::vector<std::size_t> shown;
  for (const std::string_view line : lines_of(log)) {
    const std::size_t number = ptx_line(line);
    if (number == 0 || number > code.size() || shown.size() >= most_ptx_lines ||
        std::find(shown.begin(), shown.end(), number) != shown.end())
      continue;
    if (shown.empty()) words += "\nThe PTX lines named in these messages:\n";
    shown.push_back(number);
    const std::string source = source_place(code, number);
    words += fmt::format("  {}:{}{}\n", number, code[number - 1], source.empty() ? "" : "    // " + source);
  }
  return words;
}

std::string without_times(std::string_view log) {
  std::string kept;
  for (const std::string_view line : lines_of(log))
    if (!has(line, "Compile time =")) kept.append(line).append("\n");
  return kept;
}

std::string cut(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  return fmt::format("{}\n... ({} bytes omitted) ...\n{}", text.substr(0, most_bytes / 2),
                     text.size() - most_bytes, text.substr(text.size() - most_bytes / 2));
}

}  // namespace cultivar
