// Arithmetic over named numbers, evaluated by muParser: dimensions, parameters, tunables, `let` names and
// device facts. Besides muParser's own operators: %, ceil_div(a, b), round_up(a, b), floor_div(a, b), floor,
// ceil, min, max, !. The names of dtypes (f32, bf16, ...) are constants, so that `dtype == bf16` works. Exact
// to 2^53.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

using Bindings = std::map<std::string, double, std::less<>>;

class Expression {
 public:
  static Expected<Expression> parse(std::string text);
  static Expression constant(double value);
  // Functions and constants: a name that means something already.
  static const std::vector<std::string>& reserved_names();

  // The names it needs, sorted, each once.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& text() const { return text_; }

  // An unknown name, a non-finite result: an Error that says which.
  Expected<double> evaluate(const Bindings&) const;
  // The same, but the result must be a whole number >= minimum.
  Expected<std::int64_t> evaluate_integer(const Bindings&, std::int64_t minimum = 0) const;

  friend bool operator==(const Expression& a, const Expression& b) { return a.text_ == b.text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace cultivar
