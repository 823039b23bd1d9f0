// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "evaluators/system/lines.hpp"
#include "evaluators/target/language.hpp"
#include "operators/edits/edits.hpp"
#include "operators/edits/lines.hpp"

namespace cultivar {
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
