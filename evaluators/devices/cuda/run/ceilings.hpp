// SPDX-License-Identifier: Apache-2.0
// Peak rates of this card, measured by Cultivar's own kernels: no candidate can exceed them.
#pragma once

#include <filesystem>

#include "evaluators/devices/cuda/run/gpu.hpp"

namespace cultivar::cuda {

// Reads the cache if this card (name, bus and driver) was measured before; otherwise measures, which takes
// about one second, and writes the cache. The matrix rate is 0 on architectures whose fastest unit
// own_kernels.cu does not use. Throws MissingError when a kernel fails.
Ceilings ceilings_of(Gpu&, const std::filesystem::path& cache);
// Measures again, keeps the greater of each value, and writes the cache.
Ceilings raised_ceilings(Gpu&, const std::filesystem::path& cache, Ceilings known);

}  // namespace cultivar::cuda
