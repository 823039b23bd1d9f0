// SPDX-License-Identifier: Apache-2.0
#include "engine/export/markdown.hpp"

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string in_a_cell(std::string_view text) {
  std::string cell;
  for (const char c : utf8_text(text))
    if (c == '&')
      cell += "&amp;";
    else if (c == '<')
      cell += "&lt;";
    else if (c == '>')
      cell += "&gt;";
    else if (c == '\n' || c == '\t')
      cell += ' ';
    else
      cell.append(std::string_view("|\\`[]!").find(c) != std::string_view::npos ? "\\" : "") += c;
  return cell;
}

std::string in_code(std::string_view text) {
  std::string code;
  for (const char c : utf8_text(text)) code += c == '`' ? '\'' : c == '\n' || c == '\t' ? ' ' : c;
  return code;
}

MarkdownTable::MarkdownTable(const std::vector<std::string>& heads) {
  row(heads);
  text_ += "|";
  for (std::size_t i = 0; i < heads.size(); ++i) text_ += "---|";
  text_ += "\n";
}

void MarkdownTable::row(const std::vector<std::string>& cells) {
  text_ += "|";
  for (const std::string& cell : cells) text_ += " " + in_a_cell(cell) + (cell.empty() ? "|" : " |");
  text_ += "\n";
}

}  // namespace cultivar
