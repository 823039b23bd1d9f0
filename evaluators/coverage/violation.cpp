#include "evaluators/coverage/violation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string Violation::text() const {
  const std::string where =
      fmt::format("line {}{}", line, file.starts_with("variant.") || file.empty() ? "" : " of " + file);
  if (kind == Kind::assertion)
    return fmt::format("{}: the assertion {} of the C++ library fails", where, what);
  return fmt::format("{}: the index {} is outside {}", where, index, what);
}

std::optional<Violation> violation_in(std::span<const std::byte> counters) {
  if (counters.size() < violation_bytes) return std::nullopt;
  std::int64_t words[3] = {};
  std::memcpy(words, counters.data(), sizeof words);
  if (words[0] != 1 && words[0] != 2) return std::nullopt;
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
  return found;
}

}  // namespace cultivar
