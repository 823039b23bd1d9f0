// SPDX-License-Identifier: Apache-2.0
#include "evaluators/coverage/coverage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

// The macros that not all specialisations have: what tells this one from the others.
std::string words_of(const BlocksRun::Macros& own, const std::map<std::string, std::size_t>& uses,
                     std::size_t specialisations) {
  std::vector<std::string> words;
  for (const std::string& macro : own)
    if (uses.at(macro) < specialisations) words.push_back(macro);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string LinesNotRun::text() const {
  std::string words = first_line == last_line ? fmt::format("line {}", first_line)
                                              : fmt::format("line {} to {}", first_line, last_line);
  if (!file.empty() && !file.starts_with("variant.")) words += " of " + file;
  if (!specialisation.empty()) words += ", specialisation " + specialisation;
  return words + ": never ran under a check";
}

std::string Coverage::text(std::size_t most_lines) const {
  std::string words;
  if (known()) {
    words = fmt::format("coverage: {} of {} blocks ran under a check", ran, blocks);
    if (specialisations > 1) words += fmt::format(", in {} specialisations", specialisations);
    if (drawn_runs > 0) words += fmt::format(" ({} runs were drawn for those that had not run)", drawn_runs);
    words += "\n";
  }
  for (std::size_t i = 0; i < std::min(most_lines, not_run.size()); ++i)
    words += fmt::format("  {}\n", not_run[i].text());
  if (not_run.size() > most_lines) words += fmt::format("  and {} more\n", not_run.size() - most_lines);
  for (const std::string& why : missing) words += fmt::format("coverage is not known: {}\n", why);
  return words;
}

CULTIVAR_JSON(CodeBlock, counter, file, first_line, last_line)
static void to_json(nlohmann::json& j, const LinesNotRun& lines) {
  j = {{"specialisation", lines.specialisation}, {"file", lines.file},     {"first_line", lines.first_line},
       {"last_line", lines.last_line},           {"blocks", lines.blocks}, {"text", lines.text()}};
}
static void from_json(const nlohmann::json& j, LinesNotRun& lines) {
  j.at("specialisation").get_to(lines.specialisation);
  j.at("file").get_to(lines.file);
  j.at("first_line").get_to(lines.first_line);
  j.at("last_line").get_to(lines.last_line);
  j.at("blocks").get_to(lines.blocks);
}
CULTIVAR_JSON(Coverage, blocks, ran, specialisations, drawn_runs, not_run, missing)

void BlocksRun::expect(const Macros& macros, std::vector<CodeBlock> blocks) {
  const std::size_t count = blocks.size();
  builds_.try_emplace(macros, Build{std::move(blocks), std::vector<bool>(count)});
}

std::size_t BlocksRun::note(const Macros& macros, std::span<const std::byte> counters) {
  const auto found = builds_.find(macros);
  if (found == builds_.end()) return 0;
  Build& build = found->second;
  std::size_t first = 0;
  for (std::size_t i = 0; i < build.blocks.size(); ++i) {
    const std::uint64_t at = build.blocks[i].counter;
    if (build.ran[i] || at >= counters.size() || counters[at] == std::byte{0}) continue;
    build.ran[i] = true;
    ++first;
  }
  return first;
}

bool BlocksRun::complete(const Macros& macros) const {
  const auto found = builds_.find(macros);
  return found != builds_.end() && std::ranges::all_of(found->second.ran, std::identity());
}

bool BlocksRun::complete() const {
  return std::ranges::all_of(builds_, [this](const auto& build) { return complete(build.first); });
}

std::vector<CodeBlock> BlocksRun::unreached(const Macros& macros) const {
  std::vector<CodeBlock> blocks;
  if (const auto found = builds_.find(macros); found != builds_.end())
    for (std::size_t i = 0; i < found->second.blocks.size(); ++i)
      if (!found->second.ran[i]) blocks.push_back(found->second.blocks[i]);
  return blocks;
}

std::vector<BlocksRun::Macros> BlocksRun::incomplete() const {
  std::vector<Macros> all;
  for (const auto& [macros, build] : builds_)
    if (!complete(macros)) all.push_back(macros);
  return all;
}

Coverage BlocksRun::coverage() const {
  Coverage coverage;
  coverage.specialisations = static_cast<int>(builds_.size());
  std::map<std::string, std::size_t> uses;
  for (const auto& [macros, build] : builds_)
    for (const std::string& macro : macros) ++uses[macro];
  for (const auto& [macros, build] : builds_) {
    coverage.blocks += static_cast<int>(build.blocks.size());
    coverage.ran += static_cast<int>(std::ranges::count(build.ran, true));
    std::vector<LinesNotRun> lines;
    for (std::size_t i = 0; i < build.blocks.size(); ++i)
      if (const CodeBlock& block = build.blocks[i]; !build.ran[i])
        lines.push_back(
            {words_of(macros, uses, builds_.size()), block.file, block.first_line, block.last_line, 1});
    std::ranges::sort(lines, {},
                      [](const LinesNotRun& l) { return std::tuple(l.file, l.first_line, l.last_line); });
    for (LinesNotRun& next : lines) {
      LinesNotRun* last = coverage.not_run.empty() ? nullptr : &coverage.not_run.back();
      if (last != nullptr && last->specialisation == next.specialisation && last->file == next.file &&
          next.first_line <= last->last_line + 1) {
        last->last_line = std::max(last->last_line, next.last_line);
        ++last->blocks;
      } else if (coverage.not_run.size() < most_not_run) {
        coverage.not_run.push_back(std::move(next));
      }
    }
  }
  return coverage;
}

std::string Violation::text() const {
  const std::string where =
      fmt::format("line {}{}{}", line, last_line > line ? fmt::format(" to {}", last_line) : "",
                  file.starts_with("variant.") || file.empty() ? "" : " of " + file);
  if (kind == Kind::race)
    return where + ": two threads of one launch use the same memory without synchronization, and one writes";
  if (kind == Kind::assertion)
    return fmt::format("{}: the assertion {} of the C++ library fails", where, what);
  return fmt::format("{}: the index {} is outside {}", where, index, what);
}

std::optional<Violation> violation_in(std::span<const std::byte> counters,
                                      std::span<const CodeBlock> blocks) {
  if (counters.size() < violation_bytes) return std::nullopt;
  std::int64_t words[3] = {};
  std::memcpy(words, counters.data(), sizeof words);
  if (words[0] < 1 || words[0] > 3) return std::nullopt;
  const auto* const begin = reinterpret_cast<const char*>(counters.data()) + sizeof words;
  const std::string text(begin, std::find(begin, begin + violation_bytes - sizeof words, '\0'));
  const std::size_t end = std::min(text.find('\n'), text.size());
  Violation found;
  found.kind = static_cast<Violation::Kind>(words[0]);
  found.line = words[1];
  found.index = words[2];
  const std::string path = text.substr(0, end);
  found.file = plain_line(path.substr(path.rfind('/') + 1), 80);
  found.what = plain_line(text.substr(std::min(end + 1, text.size())), 80);
  if (found.kind != Violation::Kind::race) return found;
  const CodeBlock* at = nullptr;  // the last one that begins before the instruction
  for (const CodeBlock& block : blocks)
    if (block.counter <= static_cast<std::uint64_t>(found.index) &&
        (at == nullptr || at->counter < block.counter))
      at = &block;
  if (at == nullptr) return std::nullopt;
  found.file = at->file, found.line = at->first_line, found.last_line = at->last_line;
  return found;
}

}  // namespace cultivar
