// SPDX-License-Identifier: Apache-2.0
#include "evaluators/yaml/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace cultivar {
namespace {

// Damerau-Levenshtein distance (an adjacent swap counts once) in half edits: a difference in case costs one
// half edit.
std::size_t half_edits(std::string_view a, std::string_view b) {
  const auto change = [](char x, char y) -> std::size_t {
    if (x == y) return 0;
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y)) ? 1 : 2;
  };
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = 2 * j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = 2 * i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 2, row[j - 1] + 2, previous[j - 1] + change(a[i - 1], b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 2);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : known) {
    const std::size_t length = std::max(name.size(), candidate.size());
    if (length > 200) continue;  // too long for the quadratic distance, as in hostile input
    const bool same_but_case =
        std::equal(name.begin(), name.end(), candidate.begin(), candidate.end(), [](char x, char y) {
          return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
        });
    const std::size_t distance = same_but_case ? 1 : half_edits(name, candidate);
    const bool near = distance <= std::max<std::size_t>(2, 2 * length / 3) && distance < 2 * length;
    if (near && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known, std::size_t most) {
  const std::string nearest = nearest_name(name, known);
  std::vector<std::string> sorted = known;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (nearest.empty())
    return sorted.empty() ? std::string(" (none are known)")
                          : fmt::format(" (known: {})", fmt::join(sorted, ", "));
  if (sorted.size() > most) return fmt::format(" (did you mean '{}'?)", nearest);
  return fmt::format(" (did you mean '{}'? known: {})", nearest, fmt::join(sorted, ", "));
}

}  // namespace cultivar
