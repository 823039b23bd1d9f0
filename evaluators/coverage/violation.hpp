// SPDX-License-Identifier: Apache-2.0
// What a check build found wrong while it ran: an index outside an array whose size the compiler knows, or
// memory that two threads of one launch share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "evaluators/coverage/coverage.hpp"

namespace cultivar {

struct Violation {
  enum class Kind { index = 1, assertion = 2, race = 3 } kind = Kind::index;
  std::string file, what;  // "variant.cpp"; the type of the array, 'float [8]', or the assertion
  std::int64_t line = 0, last_line = 0, index = 0;

  std::string text() const;  // "line 12: the index 9 is outside 'float [8]'"
};

// How many bytes in front of the counters hold one: three words of 8 bytes (the kind, 0: none; the line; the
// index; of a race, the offset of the instruction in place of both), then "FILE\nWHAT" with a 0 behind it.
inline constexpr std::size_t violation_bytes = 128;
// Believes nothing: a candidate may have written them. `blocks`: those of the check build.
std::optional<Violation> violation_in(std::span<const std::byte> counters, std::span<const CodeBlock> blocks);

}  // namespace cultivar
