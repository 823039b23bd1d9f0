// SPDX-License-Identifier: Apache-2.0
#include "evaluators/coverage/violation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

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
