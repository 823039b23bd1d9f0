// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/one_line.hpp"

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

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

}  // namespace cultivar
