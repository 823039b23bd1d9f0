// SPDX-License-Identifier: Apache-2.0
// A run that nobody searched: a record of any size with everything that a record can hold, also texts that
// attack a page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace cultivar::testing {

struct SyntheticRun {
  std::int64_t individuals = 200;
  std::string name = "synthetic";
  bool hostile = false;  // names, notes, reasons and answers with HTML, control characters and lines of 10 MB
  std::int64_t pending = 0;  // proposed at the end, and never judged
  bool cells = false;        // the strategy map_elites; otherwise four islands
  // Called after each step of the record, with the number of individuals so far; false: the search ends here,
  // as if it had been killed. The record says that the search runs as long as this process holds it.
  std::function<bool(std::int64_t)> goes_on = {};
  std::int64_t at_once = 0;  // individuals in a step; 0: so that there are at most 2000 steps
  std::int64_t until = 0;    // goes on to so many individuals, one in a step; 0: not
};

// Writes the record of the folder, which must not exist; finished, unless it is left earlier. Throws
// std::runtime_error.
void write_synthetic_run(const std::filesystem::path& folder, const SyntheticRun&);

// The word that no page may run as a script: hostile texts set `window.attacked`.
inline constexpr const char* kAttack =
    "</script><script>window.attacked=1</script><img src=x onerror=\"window.attacked=1\">";

}  // namespace cultivar::testing
