// SPDX-License-Identifier: Apache-2.0
// Markdown for text from other parties (operators, notes, devices, contenders): it cannot create columns,
// HTML, links or lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// Escaped for a line or a table's cell.
std::string in_a_cell(std::string_view text);
// For between two backticks, where escapes have no effect.
std::string in_code(std::string_view text);

// A table whose cells are all escaped.
class MarkdownTable {
 public:
  explicit MarkdownTable(const std::vector<std::string>& heads);
  void row(const std::vector<std::string>& cells);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace cultivar
