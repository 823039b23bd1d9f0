// SPDX-License-Identifier: Apache-2.0
// The counters and samplers of a GPU.
#pragma once

#include <memory>

#include "evaluators/targets/cuda/gpu.hpp"
#include "evaluators/targets/instruments.hpp"

namespace cultivar::cuda {

// The Gpu must outlive the result.
std::unique_ptr<Instruments> make_instruments(Gpu&);

}  // namespace cultivar::cuda
