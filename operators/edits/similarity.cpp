// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/similarity.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "evaluators/system/lines.hpp"
#include "evaluators/target/language.hpp"

namespace cultivar {

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Without comments, except the manifest; comment marks in strings stay. Newlines stay.
std::string without_comments(std::string_view source) {
  const CommentSyntax& comments = comments_in(source);
  const std::string opening = comments.manifest_opening(), closing = comments.manifest_closing();
  std::string text;
  char quote = 0;
  for (std::size_t i = 0; i < source.size();) {
    const std::string_view rest = source.substr(i);
    if (quote == 0 && rest.starts_with(opening)) {
      const std::size_t end = std::min(rest.find(closing), rest.size());
      text += rest.substr(opening.size(), end < opening.size() ? 0 : end - opening.size());
      i += std::min(rest.size(), end + closing.size());
    } else if (quote == 0 && rest.starts_with(comments.line)) {
      i += std::min(rest.find('\n'), rest.size());
    } else if (quote == 0 && rest.starts_with(comments.opening)) {
      const std::size_t end = rest.find(comments.closing, comments.opening.size());
      const std::size_t length = end == std::string_view::npos ? rest.size() : end + comments.closing.size();
      text.append(static_cast<std::size_t>(std::ranges::count(rest.substr(0, length), '\n')), '\n');
      i += length;
    } else {
      const char c = source[i];
      if (quote != 0 && c == '\\' && rest.size() > 1) {
        text += rest.substr(0, 2);
        i += 2;
        continue;
      }
      if (c == '\n' || (quote != 0 && c == quote))
        quote = 0;
      else if (quote == 0 && c == '"')  // not ': digits may be grouped by it
        quote = c;
      text += c;
      ++i;
    }
  }
  return text;
}

std::string tokens_of(std::string_view line) {
  std::string tokens;
  for (std::size_t i = 0; i < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[i])) != 0) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    if (is_word(line[i]))
      while (end < line.size() && (is_word(line[end]) || line[end] == '.')) ++end;
    if (!tokens.empty()) tokens += ' ';
    tokens += line.substr(i, end - i);
    i = end;
  }
  return tokens;
}

template <class T>
std::size_t common(const std::vector<T>& a, const std::vector<T>& b) {  // both sorted
  std::vector<T> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.size();
}

double dice(std::size_t common, std::size_t a, std::size_t b) {
  return a + b == 0 ? 1.0 : 2.0 * static_cast<double>(common) / static_cast<double>(a + b);
}

std::vector<std::string> pairs_in(const SourceChange& change) {
  std::vector<std::string> pairs;
  const auto add = [&](const std::vector<std::string>& lines, char side) {
    for (const std::string& line : lines) {
      std::string_view before = "^";
      for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        const std::string_view token = std::string_view(line).substr(at, end - at);
        pairs.push_back(side + std::string(before) + ' ' + std::string(token));
        before = token;
        at = end + 1;
      }
    }
  };
  add(change.added, '+');
  add(change.removed, '-');
  std::ranges::sort(pairs);
  return pairs;
}

std::vector<std::string> numbers_in(const std::vector<std::string>& lines) {
  std::vector<std::string> numbers;
  for (const std::string& line : lines)
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      if (std::isdigit(static_cast<unsigned char>(line[at])) != 0)
        numbers.push_back(line.substr(at, end - at));
      at = end + 1;
    }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

std::vector<std::string> bare_lines(std::string_view source) {
  std::vector<std::string> all;
  const std::string text = without_comments(source);
  for (const std::string_view line : lines_of(text)) {
    std::string tokens = tokens_of(line);
    if (tokens.starts_with("name :") || tokens.starts_with("about :")) continue;
    if (std::ranges::any_of(tokens, is_word)) all.push_back(std::move(tokens));
  }
  return all;
}

SourceChange change_between(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  std::vector<std::string> x = before, y = after;
  std::ranges::sort(x);
  std::ranges::sort(y);
  SourceChange change;
  std::ranges::set_difference(y, x, std::back_inserter(change.added));
  std::ranges::set_difference(x, y, std::back_inserter(change.removed));
  return change;
}

bool nearly_same(const SourceChange& a, const SourceChange& b) {
  constexpr double kNearly = 0.8;
  if (a.empty() || b.empty() || numbers_in(a.added) != numbers_in(b.added)) return false;
  const std::vector<std::string> x = pairs_in(a), y = pairs_in(b);
  return dice(common(x, y), x.size(), y.size()) >= kNearly;
}

}  // namespace cultivar
