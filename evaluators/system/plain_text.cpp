// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/plain_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

namespace {

// Returns a three-byte Unicode format character: zero-width spaces, direction marks and overrides, line and
// paragraph separators, isolates, the byte order mark. 0 if there is none.
unsigned format_character(std::string_view text) {
  if (text.size() < 3) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if ((byte(0) & 0xF0) != 0xE0 || (byte(1) & 0xC0) != 0x80 || (byte(2) & 0xC0) != 0x80) return 0;
  const unsigned code = (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  const bool format = (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
                      (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || code == 0x180E ||
                      (code >= 0xFFF9 && code <= 0xFFFB);
  return format ? code : 0;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are also control characters, encoded in two bytes.
    const bool second_set =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
      plain += fmt::format("\\x{:02x}", c);
    else if (const unsigned code = c == 0xD8 && i + 1 < text.size() && text[i + 1] == '\x9C'
                                       ? 0x061Cu
                                       : format_character(text.substr(i, 3));
             code != 0) {
      plain += fmt::format("\\u{:04x}", code);
      i += code < 0x800 ? 1 : 2;
    } else if (second_set)
      plain += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      plain += text[i];
  }
  return plain;
}

std::string utf8_text(std::string_view text) {
  const std::string plain = plain_text(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(plain[i]); };
  std::string utf8;
  utf8.reserve(plain.size());
  for (std::size_t i = 0; i < plain.size();) {
    const std::size_t length = byte(i) < 0x80                     ? 1
                               : byte(i) < 0xC2 || byte(i) > 0xF4 ? 0
                               : byte(i) < 0xE0                   ? 2
                               : byte(i) < 0xF0                   ? 3
                                                                  : 4;
    bool whole = length > 0 && i + length <= plain.size();
    for (std::size_t k = 1; whole && k < length; ++k) whole = (byte(i + k) & 0xC0) == 0x80;
    // Not in Unicode: too long a form, a surrogate, beyond U+10FFFF, U+FFFE and U+FFFF.
    if (whole && length > 2) {
      const unsigned lead = static_cast<unsigned>(byte(i)) << 8 | byte(i + 1);
      whole = !(lead < 0xE0A0 || (lead >= 0xEDA0 && lead < 0xEE80) || (lead >= 0xF080 && lead < 0xF090) ||
                lead > 0xF48F || (lead == 0xEFBF && byte(i + 2) >= 0xBE));
    }
    if (whole)
      utf8.append(plain, i, length);
    else
      utf8 += fmt::format("\\x{:02x}", byte(i));
    i += whole ? length : 1;
  }
  return utf8;
}

std::string xml_text(std::string_view text) {
  std::string xml;
  for (const char c : utf8_text(text))
    xml += c == '<'    ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '&'  ? "&amp;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : std::string(1, c);
  return xml;
}

std::string cpp_comment(std::string_view text) {
  std::string comment;
  for (const char c : utf8_text(text)) comment += c == '\n' || c == '\t' ? ' ' : c;
  // A line that ends with a backslash, or its trigraph, continues in the next one.
  const std::size_t last = comment.find_last_not_of(' ');
  if (last != std::string::npos && (comment[last] == '\\' || comment[last] == '/')) comment += '.';
  return comment;
}

std::string in_quotes(std::string_view text) {
  std::string quoted;
  for (const char c : cpp_comment(text)) {
    if (c == '"' || c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::size_t character_start(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return std::min(at, text.size());
}

std::string plain_line(std::string_view text, std::size_t most_bytes) {
  std::string line = plain_text(text.substr(0, most_bytes + 1));
  for (char& c : line)
    if (c == '\n' || c == '\t') c = ' ';
  if (line.size() <= most_bytes && text.size() <= most_bytes) return line;
  return line.substr(0, character_start(line, most_bytes)) + " ...";
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,=@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  for (const char c : text)
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  return word + "'";
}

std::string shell_words(const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + shell_word(word);
  return words;
}

std::string one_line_of(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t';
    if (c == '\n' || c == '\r') break;
    if (static_cast<unsigned char>(c) < 0x20 && !blank) continue;
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : c;
  }
  if (line.size() > most) {
    line.resize(character_start(line, most));
    line += "...";
  }
  return line;
}

std::vector<std::string_view> lines_with_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end == text.npos ? end : end + 1));
    text.remove_prefix(lines.back().size());
  }
  return lines;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = lines_with_ends(text);
  for (std::string_view& line : lines)
    if (line.ends_with('\n')) line.remove_suffix(1);
  return lines;
}

}  // namespace cultivar
