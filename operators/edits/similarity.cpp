// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/similarity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <vector>

#include "evaluators/system/plain_text.hpp"
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

using Lines = std::vector<std::string_view>;
constexpr std::size_t kMostCells = 16'000'000;  // cells in the table of common subsequences: 64 MB
constexpr std::size_t kContext = 3;

struct LineEdit {
  char kind = ' ';                    // ' ', '-', '+'
  std::size_t before = 0, after = 0;  // 0-based line numbers
};

// The diff of two ranges that differ in their first and last lines, by the longest common subsequence.
void middle(const Lines& a, const Lines& b, std::size_t a0, std::size_t a1, std::size_t b0, std::size_t b1,
            std::vector<LineEdit>& edits) {
  const std::size_t n = a1 - a0, m = b1 - b0;
  std::size_t i = 0, j = 0;
  if (n > 0 && m > 0 && n <= kMostCells / m) {
    std::vector<std::uint32_t> common((n + 1) * (m + 1), 0);  // length for the rest from (i, j)
    const auto at = [&](std::size_t x, std::size_t y) -> std::uint32_t& { return common[x * (m + 1) + y]; };
    for (std::size_t x = n; x-- > 0;)
      for (std::size_t y = m; y-- > 0;)
        at(x, y) = a[a0 + x] == b[b0 + y] ? at(x + 1, y + 1) + 1 : std::max(at(x + 1, y), at(x, y + 1));
    while (i < n && j < m) {
      if (a[a0 + i] == b[b0 + j]) {
        edits.push_back({' ', a0 + i, b0 + j});
        ++i, ++j;
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        edits.push_back({'-', a0 + i, b0 + j});
        ++i;
      } else {
        edits.push_back({'+', a0 + i, b0 + j});
        ++j;
      }
    }
  }
  for (; i < n; ++i) edits.push_back({'-', a0 + i, b0 + j});
  for (; j < m; ++j) edits.push_back({'+', a0 + i, b0 + j});
}

std::vector<LineEdit> edits_between(const Lines& a, const Lines& b) {
  std::size_t head = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  std::vector<LineEdit> edits;
  for (std::size_t k = 0; k < head; ++k) edits.push_back({' ', k, k});
  middle(a, b, head, a.size() - tail, head, b.size() - tail, edits);
  for (std::size_t k = tail; k > 0; --k) edits.push_back({' ', a.size() - k, b.size() - k});
  return edits;
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

std::string line_diff(std::string_view before, std::string_view after) {
  const Lines a = lines_of(before), b = lines_of(after);
  const std::vector<LineEdit> edits = edits_between(a, b);
  std::string text;
  for (std::size_t k = 0; k < edits.size();) {
    if (edits[k].kind == ' ') {
      ++k;
      continue;
    }
    // A hunk continues while at most twice the context is equal.
    const std::size_t first = k - std::min(k, kContext);
    std::size_t last = k;
    for (std::size_t e = k; e < edits.size() && e <= last + 2 * kContext; ++e)
      if (edits[e].kind != ' ') last = e;
    const std::size_t end = std::min(edits.size(), last + 1 + kContext);
    std::size_t olds = 0, news = 0;
    std::string body;
    for (std::size_t e = first; e < end; ++e) {
      const LineEdit& edit = edits[e];
      olds += edit.kind != '+';
      news += edit.kind != '-';
      body += fmt::format("{}{}\n", edit.kind, edit.kind == '+' ? b[edit.after] : a[edit.before]);
    }
    text += fmt::format("@@ -{},{} +{},{} @@\n{}", edits[first].before + (olds > 0), olds,
                        edits[first].after + (news > 0), news, body);
    k = end;
  }
  return text;
}

}  // namespace cultivar
