// SPDX-License-Identifier: Apache-2.0
// Makes a run's files smaller without losing its decisions, individuals, sources, results or lineage.
#pragma once

#include <cstdint>

#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

struct Reclaimed {
  std::uintmax_t bytes_before = 0,
                 bytes_after = 0;    // of the record, its checkpoints and what was moved aside
  std::uintmax_t damaged_bytes = 0;  // of these afterwards, in the folder `damaged`
  std::int64_t evaluations = 0;      // whose raw samples were removed
  std::int64_t duels = 0;            // whose times were removed
};

// The individuals whose raw samples stay: the promoted, seeds, all ancestors of these, and the fittest.
inline constexpr int kFittestKept = 100;

// Removes raw samples of all other individuals and the times of duels that cannot go on; then all but the
// newest `checkpoints` copies, of which the newest is made anew. `damaged`: also what a recovery moved aside.
// What a search, a replay and the reports read stays: medians, quartiles, verdicts. An Error if a process
// holds the run, or the record is damaged; a kill in between leaves a complete record.
Expected<Reclaimed> reclaim(const RunFolder&, int checkpoints, bool damaged);

}  // namespace cultivar
