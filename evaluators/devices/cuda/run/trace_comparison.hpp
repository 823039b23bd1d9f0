// SPDX-License-Identifier: Apache-2.0
// Compares the kernels that CUPTI saw in one run with those of the plan, and their time with that of the
// events.
#pragma once

#include <optional>
#include <vector>

#include "evaluators/devices/cuda/run/kernel_trace.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar::cuda {

// Kernels are compared by grid and block, because CUPTI reports some under the name of one that was unloaded
// before (seen on an H200: `softmax` for `softmax_registers`). A record that is missing blames nobody: under
// load CUPTI loses some. `foreign`: a contender's library, which may launch what it likes, and copies.
std::optional<Fault> compare_trace(const Plan&, bool foreign, const std::vector<TracedKernel>& seen,
                                   double event_seconds);

}  // namespace cultivar::cuda
