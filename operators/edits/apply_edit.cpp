// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluators/system/lines.hpp"
#include "operators/edits/edits.hpp"
#include "operators/edits/lines.hpp"
#include "operators/edits/places.hpp"

namespace cultivar {
namespace {

using Lines = std::vector<std::string_view>;

tl::unexpected<EditRefusal> refuse(std::string words) {
  return tl::make_unexpected(EditRefusal{std::move(words)});
}

bool is_blank_line(std::string_view line) {
  return trimmed_end(line).empty();
}

std::string shifted(std::string_view line, const Shift& shift) {
  if (is_blank_line(line)) return std::string(line);
  return shift.add + std::string(line.substr(std::min(shift.remove, indentation_of(line).size())));
}

std::string opening(const Block& block, std::size_t index) {
  return fmt::format("Block {} (line {} of your answer)", index + 1, block.line);
}

std::string too_many(const std::vector<Place>& places) {
  std::string where;
  for (std::size_t i = 0; i < std::min(places.size(), kShownPlaces); ++i)
    where += fmt::format("{}{}", i == 0 ? "" : ", ", places[i].first + 1);
  const bool more = places.size() > kShownPlaces;
  return fmt::format(
      ": its SEARCH lines occur in {}{} places (lines {}{}). Add lines before or after until only one is "
      "meant.",
      more ? "more than " : "", more ? kShownPlaces : places.size(), where, more ? ", ..." : "");
}

constexpr std::size_t kToldBlocks = 4;

// Where the lines of a block are; otherwise why they cannot be found.
tl::expected<Place, std::string> place_of(const SourceLines& known, const Block& block) {
  const Lines wanted = lines_with_ends(block.search);
  if (std::all_of(wanted.begin(), wanted.end(), is_blank_line))
    return tl::make_unexpected(
        " has no SEARCH lines. Repeat the line before or after which to insert the new lines.");
  const auto places = known.places_of(wanted);
  if (!places)
    return tl::make_unexpected(
        ": too many places differ from its SEARCH lines only in tabs and spaces. Copy the lines exactly, "
        "with their indentation.");
  if (places->empty())
    return tl::make_unexpected(
        ": its SEARCH lines are not in the source. " + known.nearest_to(wanted) +
        "Copy the lines from the source as given; a block does not see the changes of other blocks.");
  if (places->size() > 1) return tl::make_unexpected(too_many(*places));
  return places->front();
}

}  // namespace

tl::expected<std::string, EditRefusal> apply_blocks(std::string_view source, const Blocks& blocks) {
  if (blocks.size() > kMostBlocks)
    return refuse(
        fmt::format("The answer has {} blocks, but at most {} are read. Send the complete source instead.",
                    blocks.size(), kMostBlocks));
  if (source.size() > kMostSourceBytes)
    return refuse(
        fmt::format("The source has {} bytes, but blocks are applied to at most {}. Send a complete, "
                    "shorter source.",
                    source.size(), kMostSourceBytes));
  const SourceLines known(source);
  const Lines& lines = known.lines();
  struct Change {
    Place place;
    std::size_t block = 0;
  };
  std::vector<Change> changes;
  std::vector<std::string> wrong;  // all of them are told, so that one answer can fix them
  for (std::size_t index = 0; index < blocks.size() && wrong.size() < kToldBlocks; ++index) {
    const auto place = place_of(known, blocks[index]);
    if (place)
      changes.push_back({*place, index});
    else
      wrong.push_back(opening(blocks[index], index) + place.error());
  }
  if (!wrong.empty()) return refuse(fmt::format("{}", fmt::join(wrong, "\n")));
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.place.first < b.place.first; });
  std::string result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto& [place, block] = changes[i];
    if (place.first < next)
      return refuse(fmt::format(
          "Blocks {} and {} change the same lines (line {} of the source). Merge them into one block.",
          changes[i - 1].block + 1, block + 1, place.first + 1));
    for (; next < place.first; ++next) result += lines[next];
    for (const std::string_view line : lines_with_ends(blocks[block].replace))
      result += shifted(line, place.shift);
    next = place.first + place.count;
  }
  for (; next < lines.size(); ++next) result += lines[next];
  if (result == source) return refuse("The edit changes nothing.");
  if (result.size() > kMostSourceBytes)
    return refuse(fmt::format("The resulting source has {} bytes, but at most {} are allowed.", result.size(),
                              kMostSourceBytes));
  return result;
}

tl::expected<std::string, EditRefusal> apply_edit(std::string_view source, const Edit& edit) {
  if (const auto* blocks = std::get_if<Blocks>(&edit)) return apply_blocks(source, *blocks);
  const std::string& text = std::get<WholeSource>(edit).text;
  if (text == source) return refuse("The source that you sent equals the one that you were given.");
  return text;
}

}  // namespace cultivar
