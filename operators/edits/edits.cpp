// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/edits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "evaluators/system/plain_text.hpp"
#include "evaluators/target/language.hpp"

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
