// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/places.hpp"

#include <fmt/format.h>

#include "evaluators/system/lines.hpp"

namespace cultivar {

namespace {

using Lines = std::vector<std::string_view>;
using Symbols = std::vector<std::uint64_t>;

bool is_blank(std::string_view line) {
  return trimmed_end(line).empty();
}

std::string_view bare(std::string_view line) {
  const std::string_view text = trimmed_end(line);
  return text.substr(indentation_of(text).size());
}

// The indentation shift that maps `wanted` to `there`, if both are lines of code.
std::optional<Shift> shift_between(std::string_view wanted, std::string_view there) {
  if (bare(wanted) != bare(there)) return std::nullopt;
  const std::string_view wi = indentation_of(wanted), ti = indentation_of(there);
  if (ti.ends_with(wi)) return Shift{std::string(ti.substr(0, ti.size() - wi.size())), 0};
  if (wi.ends_with(ti)) return Shift{"", wi.size() - ti.size()};
  return std::nullopt;
}

// The common shift of all lines, if any; `effort` counts the lines examined.
std::optional<Shift> shift_at(const Lines& wanted, const Lines& source, std::size_t first,
                              std::size_t& effort) {
  std::optional<Shift> shift;
  for (std::size_t i = 0; i < wanted.size(); ++i, ++effort) {
    if (is_blank(wanted[i])) continue;  // the other line is blank too: already compared
    const auto one = shift_between(wanted[i], source[first + i]);
    if (!one || (shift && *shift != *one)) return std::nullopt;
    shift = one;
  }
  return shift;
}

std::uint64_t mixed(std::uint64_t id, std::int64_t deeper) {
  return (id << 32) ^ static_cast<std::uint32_t>(static_cast<std::int32_t>(deeper));
}

// `bare`, plus each code line's indentation relative to the previous one; the first has no predecessor.
Symbols relative(const Lines& lines, const Symbols& bare) {
  Symbols result;
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) {
      result.push_back(mixed(bare[i], 0));
      continue;
    }
    const std::size_t now = indentation_of(lines[i]).size();
    const auto deeper = before ? static_cast<std::int64_t>(now) - static_cast<std::int64_t>(*before) : 0;
    result.push_back(mixed(bare[i], deeper));
    before = now;
  }
  return result;
}

// Knuth-Morris-Pratt: calls `found` for every position of pattern[from..] in text until it returns false.
template <class Found>
void each_place(const Symbols& pattern, std::size_t from, const Symbols& text, const Found& found) {
  const std::size_t size = pattern.size() - from;
  if (size == 0) {
    for (std::size_t i = 0; i <= text.size(); ++i)
      if (!found(i)) return;
    return;
  }
  const auto wanted = [&](std::size_t i) { return pattern[from + i]; };
  std::vector<std::size_t> fall(size, 0);
  for (std::size_t i = 1, k = 0; i < size; ++i) {
    while (k > 0 && wanted(i) != wanted(k)) k = fall[k - 1];
    if (wanted(i) == wanted(k)) ++k;
    fall[i] = k;
  }
  for (std::size_t i = 0, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != wanted(k)) k = fall[k - 1];
    if (text[i] == wanted(k)) ++k;
    if (k == size) {
      if (!found(i + 1 - size)) return;
      k = fall[k - 1];
    }
  }
}

std::string shown(std::string_view line) {
  std::string text(trimmed_end(line));
  if (text.size() > 160) text = text.substr(0, 160) + "...";
  return "  | " + text + "\n";
}

}  // namespace

SourceLines::SourceLines(std::string_view source) : lines_(lines_with_ends(source)) {
  // 0 stands for a text that is not a line of the source, 1 for a blank line.
  ids_.emplace("", 1);
  const auto number = [this](std::string_view text) {
    return ids_.emplace(text, ids_.size() + 1).first->second;
  };
  for (const std::string_view line : lines_) {
    whole_.push_back(number(trimmed_end(line)));
    bare_.push_back(number(bare(line)));
  }
  relative_ = relative(lines_, bare_);
}

std::uint64_t SourceLines::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? 0 : found->second;
}

std::optional<std::vector<Place>> SourceLines::places_of(const Lines& wanted) const {
  std::vector<Place> places;
  Symbols whole, code;
  for (const std::string_view line : wanted) {
    whole.push_back(id_of(trimmed_end(line)));
    code.push_back(id_of(bare(line)));
  }
  if (std::ranges::find(code, 0U) != code.end()) return places;
  each_place(whole, 0, whole_, [&](std::size_t first) {
    places.push_back({first, wanted.size(), {}});
    return places.size() <= kShownPlaces;
  });
  if (!places.empty()) return places;

  // The first code line's absolute indentation is unknown, so it and the blank lines before it are compared
  // separately.
  const auto begins = static_cast<std::size_t>(std::ranges::find_if_not(wanted, is_blank) - wanted.begin());
  const Symbols steps = relative(wanted, code);
  std::size_t effort = 0;
  const std::size_t most_effort = 64 * (lines_.size() + wanted.size());
  each_place(steps, begins + 1, relative_, [&](std::size_t after) {
    if (after < begins + 1 || after + wanted.size() > lines_.size() + begins + 1) return true;
    const std::size_t first = after - begins - 1;
    if (bare_[first + begins] != code[begins]) return true;
    for (std::size_t i = 0; i < begins; ++i, ++effort)
      if (bare_[first + i] != code[i]) return effort < most_effort;
    if (auto shift = shift_at(wanted, lines_, first, effort))
      places.push_back({first, wanted.size(), std::move(*shift)});
    return places.size() <= kShownPlaces && effort < most_effort;
  });
  if (effort >= most_effort && places.size() <= kShownPlaces) return std::nullopt;
  return places;
}

std::string SourceLines::nearest_to(const Lines& wanted) const {
  // Each line votes for the block's possible start. Lines that occur in many places have little weight.
  constexpr std::size_t kVotes = 64;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> where;
  Symbols code;
  for (const std::string_view line : wanted) {
    code.push_back(id_of(bare(line)));
    if (code.back() > 1) where.emplace(code.back(), std::vector<std::size_t>());
  }
  for (std::size_t i = 0; i < bare_.size(); ++i)
    if (const auto list = where.find(bare_[i]); list != where.end() && list->second.size() < kVotes)
      list->second.push_back(i);
  std::vector<std::uint32_t> votes(lines_.size(), 0);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (const auto list = where.find(code[i]); list != where.end())
      for (const std::size_t at : list->second)
        if (at >= i) ++votes[at - i];
  const auto most = std::ranges::max_element(votes);
  if (most == votes.end() || *most == 0) return "None of its lines occurs in the source.\n";
  const auto best = static_cast<std::size_t>(most - votes.begin());

  std::size_t equal = 0;
  std::optional<std::size_t> differs;
  std::optional<Shift> shift;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t at = best + i;
    const bool blank = is_blank(wanted[i]);
    if (at < lines_.size() && blank && is_blank(lines_[at])) continue;
    const auto one = at < lines_.size() && !blank ? shift_between(wanted[i], lines_[at]) : std::nullopt;
    if (one) ++equal;
    // If all lines are equal except for indentation, the first one with another indentation is the
    // difference.
    if (!differs && (!one || (shift && *shift != *one))) differs = i;
    if (one && !shift) shift = one;
  }
  std::string words =
      fmt::format("Nearest is line {}, where {} of {} lines agree. The first that does not:\n", best + 1,
                  equal, wanted.size());
  if (!differs) return words;
  words += "yours:\n" + shown(wanted[*differs]);
  words += best + *differs < lines_.size()
               ? fmt::format("line {} of the source:\n", best + *differs + 1) + shown(lines_[best + *differs])
               : std::string("the source ends before it\n");
  return words;
}

}  // namespace cultivar
