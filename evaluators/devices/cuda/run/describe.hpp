// SPDX-License-Identifier: Apache-2.0
// What is known of a plan's kernels before any of them runs.
#pragma once

#include "evaluators/profile/profile.hpp"
#include "evaluators/devices/binary.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar::cuda {

// One entry a launch: its geometry, and of its machine code registers, memory, occupancy and waves.
void describe_kernels(const Binary&, const Plan&, const Facts&, Profile&);

}  // namespace cultivar::cuda
