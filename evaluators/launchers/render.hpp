// SPDX-License-Identifier: Apache-2.0
// Fills in a template: {{name}} is replaced by its value. Values are not expanded again.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cultivar {

// Throws std::logic_error when the template names an unknown value, because templates are part of the
// program.
inline std::string render(std::string_view text,
                          const std::map<std::string, std::string, std::less<>>& values) {
  std::string result;
  for (std::size_t at = 0;;) {
    const auto open = text.find("{{", at);
    const auto close = open == std::string_view::npos ? open : text.find("}}", open);
    if (close == std::string_view::npos) return result += text.substr(at);
    const auto it = values.find(text.substr(open + 2, close - open - 2));
    if (it == values.end())
      throw std::logic_error("template names an unknown value: " +
                             std::string(text.substr(open, close - open)));
    result.append(text.substr(at, open - at)).append(it->second);
    at = close + 2;
  }
}

}  // namespace cultivar
