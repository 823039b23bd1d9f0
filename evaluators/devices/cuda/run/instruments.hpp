// SPDX-License-Identifier: Apache-2.0
// The counters and samplers of a GPU.
#pragma once

#include <memory>

#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/devices/instruments.hpp"

namespace cultivar::cuda {

// The Gpu must outlive the result.
std::unique_ptr<Instruments> make_instruments(Gpu&);

}  // namespace cultivar::cuda
