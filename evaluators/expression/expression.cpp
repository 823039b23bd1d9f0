// SPDX-License-Identifier: Apache-2.0
#include "evaluators/expression/expression.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

constexpr std::size_t longest = 4000;

// What a text without a value may contain.
std::string why_none(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> causes[] = {
      {"/", "x / 0"},
      {"ceil_div", "ceil_div(x, 0)"},
      {"floor_div", "floor_div(x, 0)"},
      {"round_up", "round_up(x, 0)"},
      {"%", "x % 0"},
      {"sqrt", "the root of a negative number"},
      {"log2", "log2 of a number that is not positive"},
      {"^", "a power of 0 or of a negative number"}};
  std::vector<std::string_view> possible;
  for (const auto& [part, cause] : causes)
    if (text.find(part) != text.npos) possible.push_back(cause);
  return possible.empty() ? "has no value"
                          : fmt::format("has no value (check for {})", fmt::join(possible, ", "));
}

// A value that does not exist, for example 1 / 0, is NaN. What is computed from it is NaN too, except where
// && or || do not depend on it; a NaN at the end is an error.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double divide(double a, double b) {
  return b == 0.0 ? kNone : a / b;
}
double ceil_div(double a, double b) {
  return std::ceil(divide(a, b));
}
double floor_div(double a, double b) {
  return std::floor(divide(a, b));
}
double round_up(double a, double b) {
  return ceil_div(a, b) * b;
}
double modulo(double a, double b) {
  return std::fmod(a, b);
}
double power(double a, double b) {
  return std::isnan(a) || std::isnan(b) || (a == 0.0 && b < 0.0) ? kNone : std::pow(a, b);
}
double negate(double a) {
  return std::isnan(a) ? kNone : a == 0.0 ? 1.0 : 0.0;
}
double both(double a, double b) {
  return a == 0.0 || b == 0.0 ? 0.0 : std::isnan(a) || std::isnan(b) ? kNone : 1.0;
}
double either(double a, double b) {
  return negate(both(negate(a), negate(b)));
}
template <template <class> class Operation>
double apply(double a, double b) {
  return Operation<double>()(a, b);
}
template <template <class> class Comparison>
double compare(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNone : Comparison<double>()(a, b) ? 1.0 : 0.0;
}
double root(double a) {
  return std::sqrt(a);
}
double magnitude(double a) {
  return std::abs(a);
}
double binary_logarithm(double a) {
  return a == 0.0 ? kNone : std::log2(a);
}
double least(const double* values, int count) {
  return std::any_of(values, values + count, [](double v) { return std::isnan(v); })
             ? kNone
             : *std::min_element(values, values + count);
}
double greatest(const double* values, int count) {
  return std::any_of(values, values + count, [](double v) { return std::isnan(v); })
             ? kNone
             : *std::max_element(values, values + count);
}
double floor_of(double a) {
  return std::floor(a);
}
double ceil_of(double a) {
  return std::ceil(a);
}

// Exactly the functions listed in evaluators/README.md: the export must be able to write each one in C++, so
// muParser's own functions are excluded. Its operators are, too: of a NaN they make 0 and 1.
void define_language(mu::Parser& parser) {
  parser.ClearFun();
  parser.ClearConst();
  parser.DefineFun("sqrt", root);
  parser.DefineFun("abs", magnitude);
  parser.DefineFun("log2", binary_logarithm);
  parser.DefineFun("min", least);
  parser.DefineFun("max", greatest);
  parser.DefineFun("ceil_div", ceil_div);
  parser.DefineFun("floor_div", floor_div);
  parser.DefineFun("round_up", round_up);
  parser.DefineFun("floor", floor_of);
  parser.DefineFun("ceil", ceil_of);
  parser.DefineOprtChars("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*^/?<>=#!$%&|~'_{}");
  parser.EnableBuiltInOprt(false);
  parser.DefineOprt("||", either, mu::prLOR);
  parser.DefineOprt("&&", both, mu::prLAND);
  parser.DefineOprt("==", compare<std::equal_to>, mu::prCMP);
  parser.DefineOprt("!=", compare<std::not_equal_to>, mu::prCMP);
  parser.DefineOprt("<=", compare<std::less_equal>, mu::prCMP);
  parser.DefineOprt(">=", compare<std::greater_equal>, mu::prCMP);
  parser.DefineOprt("<", compare<std::less>, mu::prCMP);
  parser.DefineOprt(">", compare<std::greater>, mu::prCMP);
  parser.DefineOprt("+", apply<std::plus>, mu::prADD_SUB);
  parser.DefineOprt("-", apply<std::minus>, mu::prADD_SUB);
  parser.DefineOprt("*", apply<std::multiplies>, mu::prMUL_DIV);
  parser.DefineOprt("/", divide, mu::prMUL_DIV);
  parser.DefineOprt("%", modulo, mu::prMUL_DIV);
  parser.DefineOprt("^", power, mu::prPOW, mu::oaRIGHT);
  parser.DefineInfixOprt("!", negate);
  for (int i = 0; i < dtype_count; ++i) parser.DefineConst(std::string(name_of(static_cast<Dtype>(i))), i);
}

struct NoCondition {};

double condition(double a) {
  if (std::isnan(a)) throw NoCondition();
  return a;
}

// muParser takes a NaN before ? for true. This wraps each condition, which reaches back to the parenthesis,
// comma, ? or : before it, in a function that does not.
std::string with_conditions(std::string text) {
  const std::string open = "condition(";
  for (std::size_t at = text.find('?'); at != std::string::npos; at = text.find('?', at + 1)) {
    std::size_t from = at;
    for (int depth = 0; from > 0; --from) {
      const char before = text[from - 1];
      if (depth == 0 && std::string_view("(,?:").find(before) != std::string_view::npos) break;
      depth += before == ')' ? 1 : before == '(' ? -1 : 0;
    }
    text.insert(at, ")");
    text.insert(from, open);
    at += 1 + open.size();
  }
  return text;
}

// A parser with its variables. One per thread and text, because muParser's evaluation is not const.
struct Compiled {
  mu::Parser parser;
  std::deque<double> values;  // stable addresses, one per name
};

Compiled& compiled(const std::string& text, const std::vector<std::string>& names) {
  // Bounded, because candidates can supply an unlimited number of texts.
  constexpr std::size_t most = 512;
  thread_local std::unordered_map<std::string, std::unique_ptr<Compiled>> cache;
  if (const auto found = cache.find(text); found != cache.end()) return *found->second;
  if (cache.size() >= most) cache.clear();
  auto fresh = std::make_unique<Compiled>();
  define_language(fresh->parser);
  fresh->parser.DefineFun("condition", condition);
  for (const std::string& name : names) fresh->parser.DefineVar(name, &fresh->values.emplace_back(1.0));
  fresh->parser.SetExpr(with_conditions(text));
  return *cache.emplace(text, std::move(fresh)).first->second;
}

std::string values_of(const std::vector<std::string>& names, const Bindings& bindings) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, bindings.find(name)->second);
  return text.empty() ? text : " (with " + text + ")";
}

std::optional<double> plain_number(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// An = that is not part of ==, !=, <= or >=.
bool assigns(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '=') continue;
    if (i + 1 < text.size() && text[i + 1] == '=') {
      ++i;
      continue;
    }
    if (i == 0 || std::string_view("<>!").find(text[i - 1]) == std::string_view::npos) return true;
  }
  return false;
}

tl::unexpected<Error> bad(const std::string& text, const std::string& why) {
  return failure("expression", fmt::format("'{}': {}", text, why));
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class Conditions {
 public:
  explicit Conditions(std::string_view text) : text_(text) {}

  void read(Span part) {
    part = trimmed(text_, part);
    if (part.begin == part.end) return;
    if (const Span inside = inside_parentheses(text_, part); inside.begin != inside.end) return read(inside);
    if (const std::size_t mark = find(part, '?'); mark != part.end) {
      const std::size_t colon = other_branch(mark + 1, part.end);
      add(trimmed(text_, {part.begin, mark}));
      read({part.begin, mark});
      read({mark + 1, colon});
      return read({std::min(colon + 1, part.end), part.end});
    }
    for (const std::string_view joined : {"||", "&&"})
      if (const auto operands = split(text_, part, joined); operands.size() > 1) {
        for (const Span& operand : operands) {
          add(trimmed(text_, operand), true);
          read(operand);
        }
        return;
      }
    for (const std::string_view comparison : {"==", "!=", "<=", ">=", "<", ">"})
      if (const auto sides = split(text_, part, comparison); sides.size() > 1) {
        add(part);
        for (const Span& side : sides) read(side);
        return;
      }
    arithmetic(part);
  }
  std::vector<Condition> all;

 private:
  void add(Span part, bool operand = false) {
    add(std::string(text_.substr(part.begin, part.end - part.begin)), operand);
  }
  void add(std::string condition, bool operand = false) {
    if (std::ranges::find(all, condition, &Condition::text) == all.end())
      all.push_back({std::move(condition), operand});
  }

  // The first such character in no parentheses; the end if there is none.
  std::size_t find(Span part, char wanted) const {
    int depth = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      depth += text_[i] == '(' ? 1 : text_[i] == ')' ? -1 : 0;
      if (depth == 0 && text_[i] == wanted) return i;
    }
    return part.end;
  }
  // The `:` of a `?` before this place.
  std::size_t other_branch(std::size_t i, std::size_t end) const {
    int depth = 0, open = 0;
    for (; i < end; ++i) {
      depth += text_[i] == '(' ? 1 : text_[i] == ')' ? -1 : 0;
      if (depth != 0) continue;
      if (text_[i] == '?') ++open;
      if (text_[i] == ':' && open-- == 0) return i;
    }
    return end;
  }

  // What stands in parentheses, and arguments of functions.
  void arithmetic(Span part) {
    for (std::size_t i = part.begin; i < part.end; ++i) {
      if (text_[i] != '(') continue;
      std::size_t close = i;
      for (int depth = 0; close < part.end; ++close) {
        depth += text_[close] == '(' ? 1 : text_[close] == ')' ? -1 : 0;
        if (depth == 0) break;
      }
      std::size_t name = i;
      while (name > part.begin && in_name(text_[name - 1])) --name;
      const std::string_view function = text_.substr(name, i - name);
      const std::vector<Span> arguments = split(text_, {i + 1, close}, ",");
      if (arguments.size() == 2 && (function == "min" || function == "max")) {
        const auto argument = [&](std::size_t n) {
          const Span at = trimmed(text_, arguments[n]);
          return "(" + std::string(text_.substr(at.begin, at.end - at.begin)) + ")";
        };
        add(argument(0) + " < " + argument(1));
      }
      for (const Span& argument : arguments) read(argument);
      i = close;
    }
  }

  std::string_view text_;
};

}  // namespace

Expected<Expression> Expression::parse(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  std::replace_if(text.begin(), text.end(), blank, ' ');
  if (text.empty()) return failure("expression", "the expression is empty (give a number or a formula)");
  if (text.size() > longest)
    return bad(text.substr(0, 40) + "...", fmt::format("longer than {} characters", longest));
  Expression result;
  result.text_ = std::move(text);
  if (plain_number(result.text_)) return result;
  // A search parses the same manifest again and again, and setting up a parser takes longer than evaluating.
  // Bounded, because candidates can supply an unlimited number of texts.
  constexpr std::size_t most = 512;
  thread_local std::unordered_map<std::string, std::vector<std::string>> names_of;
  if (const auto known = names_of.find(result.text_); known != names_of.end()) {
    result.names_ = known->second;
    return result;
  }
  if (result.text_.find_first_of("\"'") != std::string::npos)
    return bad(result.text_, "strings are not supported (remove the quotes inside the expression)");
  if (assigns(result.text_)) return bad(result.text_, "= is not a comparison (write ==)");
  try {
    mu::Parser parser;
    define_language(parser);
    parser.SetExpr(result.text_);
    for (const auto& [name, address] : parser.GetUsedVar()) result.names_.push_back(name);
    std::deque<double> values;
    for (const std::string& name : result.names_) parser.DefineVar(name, &values.emplace_back(1.0));
    int results = 0;
    parser.Eval(results);
    if (results != 1) return bad(result.text_, "has several values (write a single value)");
  } catch (const mu::Parser::exception_type& error) {
    return bad(result.text_, fmt::format("is not an expression: {}", error.GetMsg()));
  }
  if (names_of.size() >= most) names_of.clear();
  names_of.emplace(result.text_, result.names_);
  return result;
}

Expression Expression::constant(double value) {
  Expression result;
  result.text_ = fmt::format("{}", value);
  if (result.text_.ends_with(".0")) result.text_.resize(result.text_.size() - 2);
  return result;
}

const std::vector<std::string>& Expression::reserved_names() {
  static const std::vector<std::string> names = [] {
    mu::Parser parser;
    define_language(parser);
    std::vector<std::string> all;
    for (const auto& [name, f] : parser.GetFunDef()) all.push_back(name);
    for (const auto& [name, value] : parser.GetConst()) all.push_back(name);
    std::sort(all.begin(), all.end());
    return all;
  }();
  return names;
}

Expected<double> Expression::evaluate(const Bindings& bindings) const {
  if (const auto number = plain_number(text_)) return *number;
  for (const std::string& name : names_)
    if (!bindings.contains(name)) {
      std::vector<std::string> known;
      for (const auto& [other, value] : bindings) known.push_back(other);
      return bad(text_, fmt::format("unknown name '{}'{}", name, did_you_mean(name, known)));
    }
  try {
    Compiled& ready = compiled(text_, names_);
    for (std::size_t i = 0; i < names_.size(); ++i) ready.values[i] = bindings.find(names_[i])->second;
    const double value = ready.parser.Eval();
    if (!std::isfinite(value))
      return bad(text_, fmt::format("{}{}", std::isinf(value) ? "is infinite" : why_none(text_),
                                    values_of(names_, bindings)));
    return value;
  } catch (const NoCondition&) {
    return bad(text_, fmt::format("the condition of ? : {}{}", why_none(text_), values_of(names_, bindings)));
  } catch (const mu::Parser::exception_type& error) {
    return bad(text_, fmt::format("{}{}", error.GetMsg(), values_of(names_, bindings)));
  }
}

Expected<std::int64_t> Expression::evaluate_integer(const Bindings& bindings, std::int64_t minimum) const {
  const auto value = evaluate(bindings);
  if (!value) return tl::make_unexpected(value.error());
  if (*value != std::floor(*value))
    return bad(text_,
               fmt::format("must be a whole number, but is {}{}", *value, values_of(names_, bindings)));
  if (std::abs(*value) > 0x1p53)
    return bad(text_,
               fmt::format("must be between -2^53 and 2^53, where each whole number is exact, but is {}{}",
                           *value, values_of(names_, bindings)));
  if (*value < static_cast<double>(minimum))
    return bad(text_,
               fmt::format("must be at least {}, but is {}{}", minimum, *value, values_of(names_, bindings)));
  return static_cast<std::int64_t>(*value);
}

Span trimmed(std::string_view text, Span part) {
  while (part.begin < part.end && text[part.begin] == ' ') ++part.begin;
  while (part.begin < part.end && text[part.end - 1] == ' ') --part.end;
  return part;
}

std::vector<Span> split(std::string_view text, Span part, std::string_view at) {
  std::vector<Span> parts;
  int depth = 0;
  std::size_t begin = part.begin;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth != 0 || i + at.size() > part.end || text.substr(i, at.size()) != at) continue;
    parts.push_back({begin, i});
    begin = i + at.size();
    i = begin - 1;
  }
  parts.push_back({begin, part.end});
  return parts;
}

Span inside_parentheses(std::string_view text, Span part) {
  const Span all = trimmed(text, part), none{part.begin, part.begin};
  if (all.end - all.begin < 2 || text[all.begin] != '(' || text[all.end - 1] != ')') return none;
  // `(a) + (b)` is no part in parentheses.
  int depth = 0;
  for (std::size_t i = all.begin; i + 1 < all.end; ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return none;
  }
  return {all.begin + 1, all.end - 1};
}

std::vector<Condition> conditions_in(std::string_view text) {
  Conditions conditions(text);
  conditions.read({0, text.size()});
  return std::move(conditions.all);
}

}  // namespace cultivar
