// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/terminal_codes.hpp"

#include <algorithm>
#include <string_view>

namespace cultivar {

namespace {

constexpr char kEscape = '\x1b', kBell = '\a';

// Where the sequence ends that begins with the escape at `at`.
std::size_t end_of_code(std::string_view text, std::size_t at) {
  const auto within = [&](std::size_t i, char least, char most) {
    return i < text.size() && text[i] >= least && text[i] <= most;
  };
  std::size_t i = at + 1;
  if (i >= text.size()) return i;
  if (text[i] == '[') {  // CSI: parameters, intermediates, one final byte
    ++i;
    while (within(i, ' ', '?')) ++i;
    return within(i, '@', '~') ? i + 1 : i;
  }
  if (std::string_view("]PX^_").find(text[i]) !=
      std::string_view::npos) {  // a string, up to BEL or ESC backslash
    const std::size_t end = text.find_first_of(std::string_view("\a\x1b\n", 3), i + 1);
    if (end == std::string_view::npos) return text.size();
    if (text[end] == kBell) return end + 1;
    return text[end] == kEscape && within(end + 1, '\\', '\\') ? end + 2 : end;
  }
  while (within(i, ' ', '/')) ++i;
  return within(i, '0', '~') ? i + 1 : i;
}

}  // namespace

std::string without_terminal_codes(std::string text) {
  if (text.find(kEscape) == std::string::npos) return text;
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t code = std::min(text.find(kEscape, at), text.size());
    plain.append(text, at, code - at);
    at = code < text.size() ? end_of_code(text, code) : code;
  }
  return plain;
}

}  // namespace cultivar
