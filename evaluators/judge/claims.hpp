// SPDX-License-Identifier: Apache-2.0
// What a variant may claim. `requires` describes what its kernel needs, so it has a value everywhere, and it
// does not choose the shapes on which the kernel is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/judge/requests.hpp"

namespace cultivar {

// The first of the listed shapes that the variant does not claim although it claims, in one dimension or
// amount (amounts_of), at least half of the smaller ones and half of the larger ones: `requires` that leaves
// out a shape between those that it claims avoids a check and describes no property of the kernel. Those
// other shapes are between half and twice as long there, or between a sixteenth and sixteen times, by
// multiples of the same power of two (or of one that is small against it).
std::optional<Workload> singled_out(const Task&, const Variant&, std::span<const Workload> listed,
                                    std::uint64_t seed);

// Before anything runs: the variant claims these workloads, `requires` has a value on every listed shape, and
// singles none out. nullopt: it may claim what it claims. Takes up to some tens of milliseconds.
std::optional<Evaluation> claim_trouble(const Task&, const Variant&, const std::vector<Workload>& workloads,
                                        std::uint64_t seed);

// One of the alternatives that `requires` joins with || (under && and in parentheses, too).
struct ClaimedAlternative {
  Variant only;          // the variant with a `requires` in which it is the only one of its alternatives
  std::string text;      // as the manifest states it
  std::string narrowed;  // the whole of `requires` without it
};
// The alternatives that hold on none of these shapes. What no check shows right must not be claimed.
std::vector<ClaimedAlternative> alternatives_beyond(const Task&, const Variant&,
                                                    std::span<const Workload> shapes);

}  // namespace cultivar
