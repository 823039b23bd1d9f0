// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/edits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "evaluators/system/lines.hpp"
#include "evaluators/target/language.hpp"
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

namespace {

bool has_manifest(const std::optional<std::string>& text) {
  return text && find_manifest_opening(*text) != std::string::npos;
}
bool is_marker(std::string_view line, char sign, std::string_view word) {
  const std::string_view text = trimmed_end(line);
  const std::size_t signs = text.find_first_not_of(sign);
  if (signs == std::string_view::npos) return word.empty() && text.size() >= 5 && text.size() <= 9;
  if (signs < 5 || signs > 9 || word.empty()) return false;
  const std::size_t at = text.find_first_not_of(' ', signs);
  return at != std::string_view::npos && text.substr(at) == word;
}
bool is_fence(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size())).starts_with("```");
}

tl::unexpected<EditRefusal> refuse_answer(std::string words) {
  return tl::make_unexpected(EditRefusal{std::move(words)});
}

}  // namespace

tl::expected<Edit, EditRefusal> find_edit(std::string_view answer, std::size_t max_bytes) {
  if (answer.size() > max_bytes)
    return refuse_answer(
        fmt::format("The answer has {} bytes, but at most {} are read. Send SEARCH/REPLACE blocks.",
                    answer.size(), max_bytes));
  const std::vector<std::string_view> lines = lines_with_ends(answer);
  Blocks blocks;
  std::optional<WholeSource> whole;
  std::optional<std::string> fenced;
  enum class In { text, search, replace } in = In::text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const int number = static_cast<int>(i) + 1;
    if (in == In::text && is_marker(line, '<', "SEARCH")) {
      blocks.push_back({"", "", number});
      in = In::search;
    } else if (in == In::search && is_marker(line, '=', "")) {
      in = In::replace;
    } else if (in == In::replace && is_marker(line, '>', "REPLACE")) {
      in = In::text;
    } else if (in != In::text) {
      if (is_marker(line, '<', "SEARCH"))
        return refuse_answer(
            fmt::format("The block that starts in line {} of your answer is not closed before the next "
                        "one in line {}: each needs a line '=======' and a line '>>>>>>> REPLACE'.",
                        blocks.back().line, number));
      (in == In::search ? blocks.back().search : blocks.back().replace) += line;
      if (!line.ends_with('\n')) (in == In::search ? blocks.back().search : blocks.back().replace) += '\n';
    } else if (is_fence(line)) {
      if (has_manifest(fenced)) whole = WholeSource{std::move(*fenced)};
      fenced = fenced ? std::nullopt : std::optional<std::string>("");
    } else if (fenced) {
      *fenced += line;
    }
  }
  if (in != In::text)
    return refuse_answer(
        fmt::format("The block that starts in line {} of your answer is not closed: it needs a line "
                    "'=======' and a line '>>>>>>> REPLACE'. Was the answer cut off?",
                    blocks.back().line));
  if (has_manifest(fenced))
    return refuse_answer(
        "The code block with the complete source is not closed by ```. Was the answer cut off?");
  if (whole && !blocks.empty())
    return refuse_answer(
        "The answer has both a complete source and SEARCH/REPLACE blocks. Send only one of them.");
  if (whole) return *std::move(whole);
  if (!blocks.empty()) return blocks;
  // Some models send only the file, without a fence.
  if (const std::size_t at = answer.find_first_not_of(" \t\r\n");
      at != std::string_view::npos && at == find_manifest_opening(answer))
    return WholeSource{std::string(answer.substr(at))};
  return refuse_answer(fmt::format(
      "The answer has no edit. Send SEARCH/REPLACE blocks (<<<<<<< SEARCH, =======, >>>>>>> REPLACE), or the "
      "complete source, starting with its manifest ({}), between two lines of ```.",
      languages().front()->comments.manifest_opening()));
}

}  // namespace cultivar
