// SPDX-License-Identifier: Apache-2.0
// The parts of an expression's text that are true or not, and by which its value is decided. By the text
// alone: precedence as in expression.hpp, and every text that parses is accepted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// A part of a text: [begin, end).
struct Span {
  std::size_t begin = 0, end = 0;
};
Span trimmed(std::string_view text, Span);
// Splits at an operator, or a comma, that stands in no parentheses.
std::vector<Span> split(std::string_view text, Span, std::string_view at);
// What stands between parentheses that enclose all of the part; an empty part if none do.
Span inside_parentheses(std::string_view text, Span);

struct Condition {
  std::string text;
  bool operand = false;  // of && or ||: what it decides, others may decide as well
};
// Every condition: what stands before `?`, operands of && and ||, comparisons, `a < b` for min(a, b) and
// max(a, b). "M >= 512 && K % 8 == 0 ? 8 : 4" gives the whole before `?`, and the two comparisons. Without
// duplicates, outermost first.
std::vector<Condition> conditions_in(std::string_view text);

}  // namespace cultivar
