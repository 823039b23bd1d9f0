#include "engine/cli/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cultivar {
namespace {

// Edits to get from one to the other: insert, delete, replace, or swap two neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : known) {
    const bool prefix = typed.size() >= 3 && (name.starts_with(typed) || typed.starts_with(name));
    const std::size_t edits = prefix ? 1 : distance(typed, name);
    if (edits < best_distance) {
      best_distance = edits;
      best = name;
    }
  }
  return best;
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& known) {
  if (const auto near = nearest(typed, known)) return fmt::format(" (did you mean {}?)", *near);
  return known.empty() ? "" : fmt::format(" (known: {})", fmt::join(known, ", "));
}

}  // namespace cultivar
