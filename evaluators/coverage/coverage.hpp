// SPDX-License-Identifier: Apache-2.0
// Which basic blocks of a kernel ran under a check. Plain data.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cultivar {

// A piece of code without branches in a check build.
struct CodeBlock {
  std::uint64_t counter = 0;  // index of the byte that is not 0 when the block has run
  std::string file = {};      // "variant.cpp", or a header of the variant
  int first_line = 0, last_line = 0;
};

// Neighboring lines of one specialisation of which some block never ran.
struct LinesNotRun {
  std::string
      specialisation;  // the macros that differ between specialisations: "D=256 causal=1"; may be empty
  std::string file;
  int first_line = 0, last_line = 0;
  int blocks = 0;

  std::string text() const;  // "line 959 to 975, specialisation D=256 causal=1: never ran under a check"
  friend bool operator==(const LinesNotRun&, const LinesNotRun&) = default;
};

struct Coverage {
  int blocks = 0, ran = 0;  // of all specialisations together
  int specialisations = 0;
  int drawn_runs = 0;                // that were drawn because some blocks had not run
  std::vector<LinesNotRun> not_run;  // at most most_not_run
  std::vector<std::string> missing;  // why the coverage of some runs or specialisations is not known

  bool known() const { return blocks > 0; }
  // For people and letters: the numbers in one line, then the lines that never ran.
  std::string text(std::size_t most_lines = 12) const;
};
inline constexpr std::size_t most_not_run = 200;

void to_json(nlohmann::json&, const CodeBlock&);
void from_json(const nlohmann::json&, CodeBlock&);  // throws nlohmann::json::exception
void to_json(nlohmann::json&, const Coverage&);
void from_json(const nlohmann::json&, Coverage&);  // throws nlohmann::json::exception

// Collects the counters of many runs.
class BlocksRun {
 public:
  using Macros = std::vector<std::string>;
  // Notes the blocks of a specialisation, all of which have not run. A known one stays as it is.
  void expect(const Macros&, std::vector<CodeBlock>);
  bool knows(const Macros& macros) const { return builds_.contains(macros); }
  // After a run whose output was compared and right: how many blocks these counters show for the first time.
  // Counters that are missing count as 0.
  std::size_t note(const Macros&, std::span<const std::byte> counters);
  bool complete(const Macros&) const;  // every block ran under a check
  bool complete() const;
  // The blocks of a specialisation that no check ran.
  std::vector<CodeBlock> unreached(const Macros&) const;
  std::vector<Macros> incomplete() const;  // the specialisations with such blocks

  Coverage coverage() const;

 private:
  struct Build {
    std::vector<CodeBlock> blocks;
    std::vector<bool> ran;  // by block
  };
  std::map<Macros, Build> builds_;
};

// What a check build found wrong while it ran: an index outside an array whose size the compiler knows, or
// memory that two threads of one launch share.
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
