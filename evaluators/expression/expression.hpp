// SPDX-License-Identifier: Apache-2.0
// Arithmetic over named numbers (dimensions, parameters, tunables, `let` names and device facts), evaluated
// by muParser. In addition to muParser's operators: %, ceil_div(a, b), round_up(a, b), floor_div(a, b),
// floor, ceil, min, max, !. The names of dtypes (f32, bf16, ...) are constants, so that `dtype == bf16`
// works. Exact to 2^53.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

using Bindings = std::map<std::string, double, std::less<>>;

class Expression {
 public:
  static Expected<Expression> parse(std::string text);
  static Expression constant(double value);
  // Functions and constants: names that may not be redefined.
  static const std::vector<std::string>& reserved_names();

  // The names that the expression uses, sorted, without duplicates.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& text() const { return text_; }

  // An Error names the unknown name or the non-finite result.
  Expected<double> evaluate(const Bindings&) const;
  // As above, but the result must be a whole number >= minimum.
  Expected<std::int64_t> evaluate_integer(const Bindings&, std::int64_t minimum = 0) const;

  friend bool operator==(const Expression& a, const Expression& b) { return a.text_ == b.text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
};

// The parts of an expression's text that are true or not, and by which its value is decided. By the text
// alone: precedence as in expression.hpp, and every text that parses is accepted.

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
