// SPDX-License-Identifier: Apache-2.0
// What each specialisation of a variant, an assignment of its macros, is checked on: assignments that no file
// lists, and stress cases of those that no stress shape reaches.
#pragma once

#include <optional>
#include <vector>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

// Assignments of macros for which nothing is compiled yet are drawn too, when a variant is to be confirmed.
inline constexpr std::size_t kDrawnAssignments = 24, kOutcomeAssignments = 6, kFocusedAssignments = 18;
// Shapes near the check shapes whose macros are not among `known`: up to kOutcomeAssignments where a
// condition of the manifest has an outcome that no known one shows, up to kFocusedAssignments at a focus of
// what the variant specializes, at numbers with which its source compares something. None if the variant
// specializes nothing.
std::vector<Workload> draw_unknown_assignments(const Task&, const Variant&,
                                               const std::vector<std::vector<std::string>>& known,
                                               std::uint64_t seed);

// Every stress case on shapes of the specialisations that no stress shape reaches: of the timed workloads',
// or, when it is to be confirmed, of every one that is compiled. nullopt: passed.
std::optional<Evaluation> check_stressed_specialisations(Checker&, const Task&, const Compiled&,
                                                         const std::vector<Workload>& timed, bool confirming,
                                                         std::uint64_t seed, const Announce&);

}  // namespace cultivar
