// SPDX-License-Identifier: Apache-2.0
// Shapes on which alternatives of `requires` hold that no other check reaches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evaluators/judge/claims.hpp"
#include "evaluators/judge/foci.hpp"

namespace cultivar {

// For each alternative of `requires` that holds on none of `reached`, up to two usable shapes on which it
// does. The alternatives for which none was found go to `unreached`.
std::vector<Workload> draw_alternatives(const Task& task, const Variant& variant,
                                        std::span<const Workload> reached, std::span<const Focus> foci,
                                        std::uint64_t seed,
                                        const std::function<bool(const Workload&)>& usable,
                                        std::vector<ClaimedAlternative>* unreached);

}  // namespace cultivar
