// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/line_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "evaluators/system/lines.hpp"

namespace cultivar {
namespace {

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
