// SPDX-License-Identifier: Apache-2.0
// Inputs that round differently and are otherwise alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

// Changes every value of the floating inputs by up to about a thousandth or, in coarser types, one unit in
// the last place: by a factor that the seed and the value decide, so that equal values stay equal and large
// ones stay where they are. Zeros and non-finite values stay. `inputs`: the bytes of the task's inputs, in
// order; derived ones are left alone.
void perturb_values(const Task&, const Workload&, std::uint64_t seed,
                    std::span<std::vector<std::byte>> inputs);

}  // namespace cultivar
