// SPDX-License-Identifier: Apache-2.0
// Inputs with composed values (task/composition.hpp) that a sound computation bears.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evaluators/check/oracle.hpp"

namespace cultivar {

// The strongest composition on which the oracle's values are finite and the permitted roundings lose little
// of them, also if all that is large were eight times as large: a kernel that computes in f32 may overflow or
// cancel in another place than the rounding model. Plain inputs with an empty `mixture` if there is none.
// `threads`: of the oracle. Takes up to six times as long as make_inputs, and the oracle's time for a few
// rows.
// `kind`, `thresholds`: see compose_values.
// This is tried on a few rows, and on those of `also`: where outputs were wrong, perhaps because nobody tried
// it there.
Inputs composed_inputs(const TaskReference&, const Task&, const Workload&, std::uint64_t seed, int threads,
                       std::optional<int> kind = {}, std::span<const double> thresholds = {},
                       std::span<const std::int64_t> also = {});

}  // namespace cultivar
