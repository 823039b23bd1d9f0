// Checks on shapes that are drawn for one evaluation (drawn_shapes.hpp), half of them with mixed values
// (task/mixture.hpp): whoever wrote the kernel could not know them. ../check/README.md says how probably a
// wrong kernel survives them.
#pragma once

#include <optional>
#include <vector>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

// How many shapes are drawn for an evaluation: as small as the check shapes, and as large as timed workloads.
struct DrawnCounts {
  std::size_t small = 4, large = 1;
};
inline constexpr DrawnCounts kDrawnSearching{}, kDrawnConfirming{16, 4};
// And for a confirmation, with more rows than any listed shape.
inline constexpr std::size_t kDrawnFar = 2;

// Assignments of macros for which nothing is compiled yet are drawn too, when a variant is to be confirmed.
inline constexpr std::size_t kDrawnAssignments = 4;
// Shapes near the check shapes whose macros are not among `known`; none if the variant specializes nothing.
std::vector<Workload> draw_unknown_assignments(const Task&, const Variant&,
                                               const std::vector<std::vector<std::string>>& known,
                                               std::uint64_t seed);

// nullopt: passed. A variant whose constraints exclude many of the shapes that it claims is rejected, and so
// is one that is to be confirmed (`confirming`) and claims no shape but listed ones.
std::optional<Evaluation> check_drawn_shapes(Checker&, const Facts&, const Task&, const Compiled&,
                                             const std::vector<Workload>& timed, bool confirming,
                                             std::uint64_t seed, const Announce&);

}  // namespace cultivar
