#include "evaluators/plain_text.hpp"

#include <fmt/format.h>

namespace cultivar {

std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters as well, of two bytes.
    const bool second_set =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
      plain += fmt::format("\\x{:02x}", c);
    else if (second_set)
      plain += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      plain += text[i];
  }
  return plain;
}

std::string plain_line(std::string_view text, std::size_t most_bytes) {
  std::string line = plain_text(text.substr(0, most_bytes + 1));
  for (char& c : line)
    if (c == '\n' || c == '\t') c = ' ';
  if (line.size() <= most_bytes && text.size() <= most_bytes) return line;
  std::size_t end = most_bytes;
  while (end > 0 && end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
  return line.substr(0, end) + " ...";
}

}  // namespace cultivar
