// SPDX-License-Identifier: Apache-2.0
#include "evaluators/expression/conditions.hpp"

#include <algorithm>
#include <cctype>

namespace cultivar {
namespace {

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
