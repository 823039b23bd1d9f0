// SPDX-License-Identifier: Apache-2.0
#include "evaluators/launchers/cpp_expression.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace cultivar {
namespace {

// Precedence climbing over the operators of evaluators/expression, lowest precedence first.
struct Operator {
  std::string_view text;
  int precedence;
  bool logical;  // its value is 0 or 1
};
constexpr std::array<Operator, 13> operators{{{"||", 1, true},
                                              {"&&", 2, true},
                                              {"==", 3, true},
                                              {"!=", 3, true},
                                              {"<=", 3, true},
                                              {">=", 3, true},
                                              {"<", 3, true},
                                              {">", 3, true},
                                              {"+", 4, false},
                                              {"-", 4, false},
                                              {"*", 5, false},
                                              {"/", 5, false},
                                              {"%", 5, false}}};

class Translator {
 public:
  explicit Translator(std::string_view text) : text_(text) {}

  std::string run() {
    auto result = ternary();
    if (!rest().empty()) fail();
    return result;
  }
  bool failed() const { return failed_; }
  std::string_view rest() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(at_);
  }

 private:
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string fail() {
    failed_ = true;
    return "0.0";
  }

  std::string ternary() {
    auto condition = binary(1);
    if (failed_ || !take("?")) return condition;
    auto yes = ternary();
    if (!take(":")) return fail();
    auto no = ternary();
    return fmt::format("(({}) != 0.0 ? {} : {})", condition, yes, no);
  }

  std::string binary(int lowest) {
    auto left = unary();
    while (!failed_) {
      const Operator* found = nullptr;
      for (const auto& candidate : operators)
        if (candidate.precedence >= lowest && rest().starts_with(candidate.text)) {
          found = &candidate;
          break;
        }
      if (!found) return left;
      at_ += found->text.size();
      auto right = binary(found->precedence + 1);
      if (found->text == "%")
        left = fmt::format("std::fmod({}, {})", left, right);
      else if (found->text == "/")
        left = fmt::format("expression::divide({}, {})", left, right);
      else if (found->text == "&&" || found->text == "||")
        left = fmt::format("double(({} != 0.0) {} ({} != 0.0))", left, found->text, right);
      else if (found->logical)
        left = fmt::format("double({} {} {})", left, found->text, right);
      else
        left = fmt::format("({} {} {})", left, found->text, right);
    }
    return left;
  }

  std::string unary() {
    if (take("-")) return fmt::format("(-{})", unary());
    if (take("+")) return unary();
    if (!rest().starts_with("!=") && take("!")) return fmt::format("double({} == 0.0)", unary());
    return power();
  }

  std::string power() {
    auto base = primary();
    if (!failed_ && take("^")) return fmt::format("std::pow({}, {})", base, unary());  // right-associative
    return base;
  }

  std::string primary() {
    if (take("(")) {
      auto inner = ternary();
      return take(")") ? inner : fail();
    }
    const auto here = rest();
    if (here.empty()) return fail();
    const auto first = static_cast<unsigned char>(here.front());
    if (std::isdigit(first) || first == '.') return number();
    if (!std::isalpha(first) && first != '_') return fail();
    std::size_t length = 1;
    while (length < here.size() &&
           (std::isalnum(static_cast<unsigned char>(here[length])) || here[length] == '_'))
      ++length;
    const std::string name(here.substr(0, length));
    at_ += length;
    if (!take("(")) return variable(name);
    std::string arguments;
    do {
      arguments += (arguments.empty() ? "" : ", ") + ternary();
    } while (!failed_ && take(","));
    return take(")") ? fmt::format("expression::{}({})", name, arguments) : fail();
  }

  std::string number() {
    const auto here = rest();
    std::size_t length = 0;
    bool fractional = false;
    while (length < here.size()) {
      const char c = here[length];
      const bool exponent_sign = (c == '+' || c == '-') && length > 0 && (here[length - 1] | 32) == 'e';
      if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && (c | 32) != 'e' && !exponent_sign)
        break;
      fractional |= c == '.' || (c | 32) == 'e';
      ++length;
    }
    at_ += length;
    return std::string(here.substr(0, length)) + (fractional ? "" : ".0");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::string variable(std::string_view name) {
  return fmt::format("n_{}", name);
}

Expected<std::string> to_cpp(const Expression& expression) {
  Translator translator(expression.text());
  auto result = translator.run();
  if (translator.failed())
    return failure("export", fmt::format("the expression '{}' cannot be translated to C++; unsupported: '{}'",
                                         expression.text(), translator.rest()));
  return result;
}

}  // namespace cultivar
