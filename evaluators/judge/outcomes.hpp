// SPDX-License-Identifier: Apache-2.0
// What a manifest decides by conditions: sizes of tiles, numbers of parts, which kernels are launched.
// Coverage
// (../coverage) knows only blocks of code, and a kernel that gets another number runs through the same ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// One of the two outcomes of a condition (../expression/expression.hpp).
struct Outcome {
  std::string where;  // in the manifest: "let.block"
  Expression condition;
  bool holds = true;
  bool operand = false;  // of && or ||: shown where it can be, but a variant may claim more
};
// Both outcomes of each condition of the manifest's lets, workspaces and launches, and that a let is 0, or
// less; those that only tunables decide are left out.
std::vector<Outcome> outcomes_of(const Variant&);

// A shape, and facts that the plan sees there: 0: those of this machine, otherwise a seed of others.
struct Place {
  Workload shape;
  std::uint64_t machine = 0;
};
// Facts of another machine that this one can stand in for, as it has fewer cores or other caches; these facts
// if `machine` is 0.
Facts facts_of(const Variant&, const Facts& here, std::uint64_t machine);

// Outcomes that fewer than `least` of the shapes have on this machine.
std::vector<Outcome> outcomes_beyond(const Variant&, const Task&, const Facts& here,
                                     std::span<const Workload> shapes, std::size_t least = 1);

// Takes away those that this shape has on this machine.
void leave_out_shown(std::vector<Outcome>&, const Variant&, const Task&, const Facts& here, const Workload&);

// Up to kOutcomePlaces for each of these outcomes, among `near` or drawn anywhere, the smaller ones of those
// that were found. Outcomes with a place are taken away from `unreached`.
inline constexpr std::size_t kOutcomePlaces = 6;
std::vector<Place> draw_outcomes(const Task&, const Variant&, const Facts& here,
                                 std::span<const Workload> near, std::vector<Outcome>& unreached,
                                 std::uint64_t seed, const std::function<bool(const Place&)>& usable);

// A usable shape, of any size that may be claimed, on which one of these outcomes shows, and which; nullopt:
// none was found.
struct OutcomeBeyond {
  Outcome outcome;
  Workload shape;
};
std::optional<OutcomeBeyond> claimed_beyond(const Task&, const Variant&, const Facts& here,
                                            std::span<const Workload> near,
                                            std::span<const Outcome> unreached, std::uint64_t seed,
                                            const std::function<bool(const Place&)>& usable);

// Shapes that are drawn like those of draw_outcomes, for outcomes that follow from the shape alone and that
// none of `reached` has: before anything is compiled.
std::vector<Workload> draw_outcome_shapes(const Task&, const Variant&, std::span<const Workload> reached,
                                          std::size_t count, std::uint64_t seed,
                                          const std::function<bool(const Workload&)>& usable);

}  // namespace cultivar
