// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/source_numbers.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace cultivar {
namespace {

constexpr std::int64_t kLeast = 2, kGreatest = std::int64_t{1} << 40;

// A whole number, a name, or an operator. Real numbers, strings and characters are the operator "?".
struct Token {
  enum class Kind { number, name, other } kind = Kind::other;
  std::string_view text;
  std::int64_t value = 0;
  double real = 0.0;
};

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Tokens {
 public:
  // The comment with the manifest is read like code.
  Tokens(std::string_view text, const CommentSyntax& comments)
      : text_(text),
        comments_(comments),
        opening_(comments.opening + "---"),
        closing_("---" + comments.closing) {
    while (at_ < text_.size()) step();
  }
  std::vector<Token> all;

 private:
  bool follows(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void to(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }

  void step() {
    const char c = text_[at_];
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (follows(opening_)) {
      at_ += opening_.size();
    } else if (follows(closing_)) {
      at_ += closing_.size();
    } else if (follows(comments_.line)) {
      to("\n");
    } else if (follows(comments_.opening)) {
      to(comments_.closing);
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else if (is_digit(c)) {
      number();
    } else if (begins_name(c)) {
      const std::size_t first = at_;
      while (at_ < text_.size() && in_name(text_[at_])) ++at_;
      const std::string_view word = text_.substr(first, at_ - first);
      if (word == "and" || word == "or")  // C++ has these words, too
        all.push_back({Token::Kind::other, word == "and" ? "&&" : "||"});
      else
        all.push_back({Token::Kind::name, word});
    } else {
      std::size_t length = 1;
      for (const std::string_view two : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"})
        if (follows(two)) length = 2;
      all.push_back({Token::Kind::other, text_.substr(at_, length)});
      at_ += follows("//") ? 2 : length;  // Python's division
    }
  }

  // Expressions of a manifest are in quotes, so only the marks are skipped; a character constant is nothing.
  void quoted(char mark) {
    ++at_;
    if (mark == '"') return;
    const std::size_t end = text_.find('\'', at_ + (at_ < text_.size() && text_[at_] == '\\' ? 2 : 0));
    if (end != std::string_view::npos && end - at_ <= 4) at_ = end + 1;
  }

  void number() {
    const std::size_t first = at_;
    const bool hexadecimal = follows("0x") || follows("0X");
    std::string digits;
    while (at_ < text_.size() && (in_name(text_[at_]) || text_[at_] == '.' || text_[at_] == '\'')) {
      const bool exponent = !hexadecimal && (text_[at_] == 'e' || text_[at_] == 'E');
      if (text_[at_] != '\'') digits += text_[at_];
      ++at_;
      if (exponent && at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) digits += text_[at_++];
    }
    const bool real = !hexadecimal && digits.find_first_of(".eEfF") != std::string::npos;
    char* end = nullptr;
    const std::int64_t value = std::strtoll(digits.c_str(), &end, 0);
    if (real || end == digits.c_str())
      all.push_back({Token::Kind::other, "?", 0, std::strtod(digits.c_str(), nullptr)});
    else
      all.push_back({Token::Kind::number, text_.substr(first, at_ - first), value});
  }

  std::string_view text_;
  const CommentSyntax& comments_;
  const std::string opening_, closing_;  // marks of a manifest
  std::size_t at_ = 0;
};

bool compares(const Token& token) {
  constexpr std::string_view kComparing[] = {"<", ">", "<=", ">=", "==", "!=", "%", "/", "&"};
  return token.kind == Token::Kind::other &&
         std::ranges::find(kComparing, token.text) != std::end(kComparing);
}

class Reader {
 public:
  Reader(const Variant& variant, const std::vector<Token>& tokens)
      : tokens_(tokens), in_python_(variant.manifest.language->comments.line == "#") {
    for (const Tunable& tunable : variant.manifest.tunables)
      if (const auto value = variant.configuration.find(tunable.name); value != variant.configuration.end())
        if (const auto* number = std::get_if<std::int64_t>(&value->second)) {
          known_[tunable.name] = *number;
          add(*number, false);
        }
  }

  SourceNumbers read() {
    for (std::size_t i = 0; i < tokens_.size();) {
      std::int64_t value = 0;
      if (!operand(i, value)) {
        ++i;
        continue;
      }
      // A maximal run of known operands, evaluated from left to right; `a * b + c` also gives `a * b`.
      const std::size_t first = i;
      add(value, beside(first, i + 1));
      std::size_t next = i + 1;
      while (next + 1 < tokens_.size()) {
        std::int64_t other = 0;
        const std::string_view operation = tokens_[next].text;
        if (tokens_[next].kind != Token::Kind::other || !operand(next + 1, other) ||
            !apply(operation, value, other))
          break;
        add(other, false);
        next += 2;
        add(value, beside(first, next));
      }
      name(first, value);
      add_named(first, next, value);
      if (multiplies_a_name(first, next)) factors_.insert(value);
      i = next;
    }
    SourceNumbers numbers;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      add_threshold(i, numbers.thresholds);
      add_row(i, numbers.rows);
    }
    add_conditions(numbers.conditions);
    numbers.named.assign(named_.begin(), named_.end());
    std::ranges::copy_if(factors_, std::back_inserter(numbers.factors), [](std::int64_t factor) {
      constexpr std::int64_t kGreatestFactor = 64;
      return factor >= kLeast && factor <= kGreatestFactor;
    });
    for (const std::int64_t value : compared_)
      if (numbers.compared.size() < kMostSourceNumbers) numbers.compared.push_back(value);
    for (const std::int64_t value : others_)
      if (!compared_.contains(value) && numbers.others.size() < kMostSourceNumbers)
        numbers.others.push_back(value);
    return numbers;
  }

 private:
  bool operand(std::size_t i, std::int64_t& value) const {
    if (i >= tokens_.size()) return false;
    if (tokens_[i].kind == Token::Kind::number) return value = tokens_[i].value, true;
    if (tokens_[i].kind != Token::Kind::name) return false;
    const auto found = known_.find(tokens_[i].text);
    if (found == known_.end()) return false;
    return value = found->second, true;
  }

  static bool apply(std::string_view operation, std::int64_t& value, std::int64_t other) {
    if (value < 0 || value > kGreatest || other < 0 || other > kGreatest) return false;
    if (operation == "*" && (other == 0 || value <= kGreatest / other)) return value *= other, true;
    if (operation == "+") return value += other, true;
    if (operation == "-") return value -= other, true;
    if (operation == "<<" && other < 40 && value <= kGreatest >> other) return value <<= other, true;
    return false;
  }

  bool beside(std::size_t first, std::size_t end) const {
    return (first > 0 && compares(tokens_[first - 1])) || (end < tokens_.size() && compares(tokens_[end]));
  }

  void add_threshold(std::size_t i, std::vector<double>& thresholds) const {
    const std::size_t first = i > 0 && tokens_[i - 1].text == "-" ? i - 1 : i;
    // A whole number below zero is compared with no size.
    const bool below_zero =
        tokens_[i].kind == Token::Kind::number && first < i && first > 0 && compares(tokens_[first - 1]);
    const double size = below_zero ? static_cast<double>(tokens_[i].value) : tokens_[i].real;
    if (!(size > 0x1p-126 && size < 0x1p128) || thresholds.size() >= kMostSourceNumbers) return;
    const bool compared = beside(first, i + 1);
    if (compared || (first > 0 && tokens_[first - 1].text == "=")) thresholds.push_back(size);
    if (compared) thresholds.push_back(size);
  }

  // `{` at this place, and nothing but numbers with commas up to `}`.
  void add_row(std::size_t i, std::vector<std::vector<std::int64_t>>& rows) const {
    constexpr std::size_t kMostRows = 64;
    std::vector<std::int64_t> row;
    std::int64_t value = 0;
    if (tokens_[i].text != "{" || rows.size() >= kMostRows) return;
    for (++i; operand(i, value); i += 2) {
      row.push_back(value);
      if (i + 1 < tokens_.size() && tokens_[i + 1].text == "}") {
        if (row.size() >= 2) rows.push_back(std::move(row));
        return;
      }
      if (i + 1 >= tokens_.size() || tokens_[i + 1].text != ",") return;
    }
  }

  void add_conditions(std::vector<SourceNumbers::Condition>& conditions) const {
    constexpr std::size_t kMostConditions = 64;
    constexpr std::string_view kEnds[] = {";", "{", "}", "?", ":", ",", "||"};
    std::size_t first = 0;
    bool joined = false;
    for (std::size_t i = 0; i <= tokens_.size() && conditions.size() < kMostConditions; ++i) {
      const std::string_view text = i < tokens_.size() ? tokens_[i].text : ";";
      joined |= text == "&&" || joins_masks(i);
      if (std::ranges::find(kEnds, text) == std::end(kEnds)) continue;
      if (joined) add_condition(first, i, conditions);
      first = i + 1;
      joined = false;
    }
  }

  // `(a > 1) & (b > 2)`
  bool joins_masks(std::size_t i) const {
    return i > 0 && i + 1 < tokens_.size() && tokens_[i].text == "&" && tokens_[i - 1].text == ")" &&
           tokens_[i + 1].text == "(";
  }

  void add_condition(std::size_t first, std::size_t end,
                     std::vector<SourceNumbers::Condition>& conditions) const {
    SourceNumbers::Condition condition;
    for (std::size_t i = first + 1; i + 1 < end; ++i) {
      std::int64_t value = 0, divisor = 0;
      if (tokens_[i].text == "%" && operand(i + 1, divisor) && divisor >= kLeast) {
        std::size_t after = i + 2;
        while (after < end && tokens_[after].text == ")") ++after;
        const bool compared = after < end && compares(tokens_[after]) && operand(after + 1, value);
        condition.remainders.emplace_back(divisor, compared ? value % divisor : 0);
      } else if (compares(tokens_[i]) && tokens_[i].text != "/" && tokens_[i].text != "&" &&
                 tokens_[i].text != "%" && (i < 2 || tokens_[i - 2].text != "%") &&
                 (operand(i + 1, value) || operand(i - 1, value)) && value >= 1 && value <= kGreatest) {
        condition.numbers.push_back(value);
      }
    }
    if (condition.numbers.size() + condition.remainders.size() >= 2)
      conditions.push_back(std::move(condition));
  }

  bool has_no_value(std::size_t i) const {
    std::int64_t value = 0;
    return i < tokens_.size() && tokens_[i].kind == Token::Kind::name && !operand(i, value);
  }
  bool is_product(std::size_t i) const { return i < tokens_.size() && tokens_[i].text == "*"; }

  // Whether the numbers from `first` to `end` multiply a name, and their product is compared.
  bool multiplies_a_name(std::size_t first, std::size_t end) const {
    if (is_product(end) && has_no_value(end + 1)) return beside(first, end + 2);
    return first >= 2 && is_product(first - 1) && has_no_value(first - 2) && beside(first - 2, end);
  }

  // NAME = value, NAME = tl.constexpr(value), or #define NAME value.
  void name(std::size_t first, std::int64_t value) {
    if (first >= 2 && tokens_[first - 1].text == "=" && tokens_[first - 2].kind == Token::Kind::name &&
        is_constant(first - 2))
      known_[std::string(tokens_[first - 2].text)] = value;
    if (first >= 6 && tokens_[first - 1].text == "(" && tokens_[first - 2].text == "constexpr" &&
        tokens_[first - 5].text == "=")
      known_[std::string(tokens_[first - 6].text)] = value;
    if (first >= 3 && tokens_[first - 1].kind == Token::Kind::name && tokens_[first - 2].text == "define")
      known_[std::string(tokens_[first - 1].text)] = value;
  }

  // A declaration of a few words before the name says that it does not change; so does its place at the
  // beginning of a line in Python.
  bool is_constant(std::size_t declared) const {
    if (in_python_ && (declared == 0 || tokens_[declared].text.data()[-1] == '\n')) return true;
    if (declared > 0 && (tokens_[declared - 1].text == "{" || tokens_[declared - 1].text == ","))
      return true;  // an enumerator
    for (std::size_t back = 1; back <= 4 && back <= declared; ++back)
      if (const std::string_view word = tokens_[declared - back].text; word == "constexpr" || word == "const")
        return true;
    return false;
  }

  void add_named(std::size_t first, std::size_t end, std::int64_t value) {
    if (value < kLeast || value > kGreatest || named_.size() >= kMostSourceNumbers) return;
    if (first >= 2 && compares(tokens_[first - 1]) && has_no_value(first - 2))
      named_.emplace(tokens_[first - 2].text, value);
    if (end + 1 < tokens_.size() && compares(tokens_[end]) && has_no_value(end + 1))
      named_.emplace(tokens_[end + 1].text, value);
  }

  void add(std::int64_t value, bool compared) {
    if (value >= kLeast && value <= kGreatest) (compared ? compared_ : others_).insert(value);
  }

  const std::vector<Token>& tokens_;
  bool in_python_;
  std::map<std::string, std::int64_t, std::less<>> known_;
  std::set<std::int64_t> compared_, others_, factors_;
  std::set<std::pair<std::string, std::int64_t>> named_;
};

}  // namespace

std::vector<std::int64_t> literals_in(std::string_view text, const CommentSyntax& comments) {
  std::vector<std::int64_t> numbers;
  for (const Token& token : Tokens(text, comments).all)
    if (token.kind == Token::Kind::number && token.value >= kLeast && token.value <= kGreatest)
      numbers.push_back(token.value);
  return numbers;
}

SourceNumbers source_numbers(const Variant& variant) {
  const Tokens tokens(variant.source, variant.manifest.language->comments);
  return Reader(variant, tokens.all).read();
}

}  // namespace cultivar
