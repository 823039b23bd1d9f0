#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "operators/edits/edits.hpp"
#include "operators/edits/lines.hpp"

namespace cultivar {
namespace {

using Lines = std::vector<std::string_view>;

// How much deeper the source is indented than the block: text to put before lines, or to take away from them.
struct Shift {
  std::string add;
  std::size_t remove = 0;
};

struct Place {
  std::size_t first = 0, count = 0;  // lines of the source
  Shift shift;
};

tl::unexpected<Refusal> refuse(std::string words) {
  return tl::make_unexpected(Refusal{std::move(words)});
}

bool is_blank(std::string_view line) {
  return trimmed_end(line).empty();
}

// The shift under which `wanted` is `there`, if both are lines of code.
std::optional<Shift> shift_between(std::string_view wanted, std::string_view there) {
  const std::string_view w = trimmed_end(wanted), t = trimmed_end(there);
  const std::string_view wi = indentation_of(w), ti = indentation_of(t);
  if (w.substr(wi.size()) != t.substr(ti.size())) return std::nullopt;
  if (ti.ends_with(wi)) return Shift{std::string(ti.substr(0, ti.size() - wi.size())), 0};
  if (wi.ends_with(ti)) return Shift{"", wi.size() - ti.size()};
  return std::nullopt;
}

std::optional<Shift> shift_at(const Lines& wanted, const Lines& source, std::size_t first) {
  std::optional<Shift> shift;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string_view there = source[first + i];
    if (is_blank(wanted[i]) || is_blank(there)) {
      if (is_blank(wanted[i]) != is_blank(there)) return std::nullopt;
      continue;
    }
    const auto one = shift_between(wanted[i], there);
    if (!one || (shift && (shift->add != one->add || shift->remove != one->remove))) return std::nullopt;
    shift = one;
  }
  return shift;  // none: only blank lines, which say nothing about a place
}

std::vector<Place> places_of(const Lines& wanted, const Lines& source) {
  std::vector<Place> exact, shifted;
  for (std::size_t first = 0; first + wanted.size() <= source.size(); ++first)
    if (auto shift = shift_at(wanted, source, first)) {
      const bool same = shift->add.empty() && shift->remove == 0;
      (same ? exact : shifted).push_back({first, wanted.size(), std::move(*shift)});
    }
  return exact.empty() ? shifted : exact;
}

std::string shifted(std::string_view line, const Shift& shift) {
  if (is_blank(line)) return std::string(line);
  return shift.add + std::string(line.substr(std::min(shift.remove, indentation_of(line).size())));
}

std::string shown(std::string_view line) {
  std::string text(trimmed_end(line));
  if (text.size() > 160) text = text.substr(0, 160) + "...";
  return "  | " + text + "\n";
}

// The stretch of the source that shares most lines with the block, in place.
std::string nearest_words(const Lines& wanted, const Lines& source) {
  std::size_t best = 0, best_equal = 0;
  const auto equal = [&](std::size_t i, std::size_t at) {
    return at < source.size() && !is_blank(wanted[i]) && shift_between(wanted[i], source[at]);
  };
  for (std::size_t first = 0; first < source.size(); ++first) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) count += equal(i, first + i) ? 1 : 0;
    if (count > best_equal) best = first, best_equal = count;
  }
  if (best_equal == 0) return "None of its lines is in the source.\n";
  std::string words =
      fmt::format("Nearest is line {}, where {} of {} lines agree. The first that does not:\n", best + 1,
                  best_equal, wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool both_blank = best + i < source.size() && is_blank(wanted[i]) && is_blank(source[best + i]);
    if (both_blank || equal(i, best + i)) continue;
    words += "yours:\n" + shown(wanted[i]);
    words += best + i < source.size()
                 ? fmt::format("line {} of the source:\n", best + i + 1) + shown(source[best + i])
                 : std::string("the source ends before it\n");
    break;
  }
  return words;
}

std::string opening(const Block& block, std::size_t index) {
  return fmt::format("Block {} (line {} of your answer)", index + 1, block.line);
}

}  // namespace

tl::expected<std::string, Refusal> apply_blocks(std::string_view source, const Blocks& blocks) {
  const Lines lines = lines_of(source);
  struct Change {
    Place place;
    std::size_t block = 0;
  };
  std::vector<Change> changes;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& block = blocks[index];
    const Lines wanted = lines_of(block.search);
    if (std::all_of(wanted.begin(), wanted.end(), is_blank))
      return refuse(opening(block, index) +
                    " has no SEARCH lines. Repeat the line before or after which the new lines shall stand.");
    const std::vector<Place> places = places_of(wanted, lines);
    if (places.empty())
      return refuse(
          opening(block, index) + ": its SEARCH lines are not in the source. " +
          nearest_words(wanted, lines) +
          "Copy the lines from the source as it was given; blocks do not see each other's changes.");
    if (places.size() > 1) {
      std::string where;
      for (const Place& place : places)
        where += fmt::format("{}{}", where.empty() ? "" : ", ", place.first + 1);
      return refuse(
          fmt::format("{}: its SEARCH lines stand in {} places (lines {}). Add lines before or after until "
                      "only one is meant.",
                      opening(block, index), places.size(), where));
    }
    changes.push_back({places.front(), index});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.place.first < b.place.first; });
  std::string result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto& [place, block] = changes[i];
    if (place.first < next)
      return refuse(fmt::format(
          "Blocks {} and {} change the same lines (line {} of the source). Make one block of them.",
          changes[i - 1].block + 1, block + 1, place.first + 1));
    for (; next < place.first; ++next) result += lines[next];
    for (const std::string_view line : lines_of(blocks[block].replace)) result += shifted(line, place.shift);
    next = place.first + place.count;
  }
  for (; next < lines.size(); ++next) result += lines[next];
  if (result == source) return refuse("The edit changes nothing.");
  return result;
}

tl::expected<std::string, Refusal> apply_edit(std::string_view source, const Edit& edit) {
  if (const auto* blocks = std::get_if<Blocks>(&edit)) return apply_blocks(source, *blocks);
  const std::string& text = std::get<WholeSource>(edit).text;
  if (text == source) return refuse("The source you sent is the one you were given.");
  return text;
}

}  // namespace cultivar
