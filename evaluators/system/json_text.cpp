// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cultivar {

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool nests_too_deep(std::string_view json, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

nlohmann::json foreign_json(std::string_view text, int most) {
  if (nests_too_deep(text, most)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

std::string where_json_breaks(std::string_view text, int most) {
  if (nests_too_deep(text, most)) return fmt::format("the JSON is nested more than {} levels deep", most);
  std::size_t at = 0;
  bool control = false;
  try {
    if (!nlohmann::json::parse(text).is_discarded()) return {};
  } catch (const nlohmann::json::parse_error& e) {
    at = e.byte == 0 ? 0 : e.byte - 1;  // counted from 1; the position of the last byte read
    control = std::string_view(e.what()).find("control character") != std::string_view::npos;
  } catch (const nlohmann::json::out_of_range&) {
    return "a number is too large";
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the text is empty";
  if (at >= text.size())
    return "the text ends too early: a quotation mark, a bracket or a brace is not closed";
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const std::size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1) + 1;  // 0 if none is found
  constexpr std::size_t kBefore = 20;
  const std::size_t from = std::max(begin > at ? at : begin, at > kBefore ? at - kBefore : 0);
  std::string near;
  for (const char c : text.substr(from, at - from + 1))
    near += static_cast<unsigned char>(c) < 0x20 ? ' ' : static_cast<unsigned char>(c) < 0x7f ? c : '?';
  return fmt::format(
      "line {}, byte {}, after `{}`: {}", line, at - (begin > at ? at : begin) + 1, near,
      control ? "inside quotation marks, write a line break as \\n and a tab as \\t"
              : "unexpected character (put strings and names in \"double quotes\", put commas between "
                "entries and none after the last, and write quotation marks inside strings as \\\")");
}

std::string said_shortly(const std::exception& e) {
  const std::string words = e.what();
  const std::size_t at = words.starts_with("[json.exception.") ? words.find("] ") : std::string::npos;
  return at == std::string::npos ? words : words.substr(at + 2, 200);
}

}  // namespace cultivar
