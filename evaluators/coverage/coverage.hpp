// SPDX-License-Identifier: Apache-2.0
// Which basic blocks of a kernel ran under a check. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
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

}  // namespace cultivar
