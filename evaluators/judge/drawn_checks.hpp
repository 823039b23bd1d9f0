// SPDX-License-Identifier: Apache-2.0
// Checks on shapes that are drawn for one evaluation (drawn_shapes.hpp), with values that are drawn as well
// (task/mixture.hpp, task/composition.hpp): whoever wrote the kernel could not know them. ../check/README.md
// says how probably a wrong kernel survives them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

// How many shapes are drawn for an evaluation: as small as the check shapes; at a focus (see Focus), exactly
// at a number of the source or anywhere, and of a medium size; as large as timed workloads; at a row of a
// table in the source. In a confirmation, shapes at a number run with values of several kinds, and of every
// kind as long as there is time.
struct DrawnCounts {
  std::size_t small = 4, exactly = 2, focused = 2, medium = 0, large = 1, tabled = 0;
};
inline constexpr DrawnCounts kDrawnSearching{}, kDrawnConfirming{16, 144, 240, 48, 6, 256};
// And for a confirmation, with more rows than any listed shape.
inline constexpr std::size_t kDrawnFar = 3;
// How long a confirmation runs the outcomes of conditions (outcomes.hpp) with values of every kind, then wide
// rows and two large dimensions together, then the longest shapes and the alternatives of `requires`, then
// drawn shapes, and then further kinds of values at a number.
inline constexpr double kOutcomeSeconds = 15.0, kFilledSeconds = 8.0, kLongestSeconds = 15.0,
                        kDrawnSeconds = 45.0, kDrawnKindsSeconds = 15.0;

using FindShape = std::function<std::optional<Workload>()>;
// nullopt: passed. A variant whose constraints exclude many of the shapes that it claims is rejected, and so
// is one that is to be confirmed (`confirming`) and claims no shape but listed ones, or what no check
// reaches; `largest` finds the shape of its large check, which costs calls of the oracle. A failure is told
// of the smallest shape and the simplest values that were found to fail.
std::optional<Evaluation> check_drawn_shapes(Checker&, const Facts&, const Task&, const Compiled&,
                                             const std::vector<Workload>& timed, const FindShape& largest,
                                             bool confirming, std::uint64_t seed, const Announce&);

}  // namespace cultivar
