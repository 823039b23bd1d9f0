// The most this card was seen to do, by kernels of our own: what no candidate can exceed.
#pragma once

#include <filesystem>

#include "evaluators/targets/cuda/gpu.hpp"

namespace cultivar::cuda {

// From the cache when it was measured on this card (name, bus and driver count) before; otherwise measured,
// in about a second, and written there. No matrix rate (0) on architectures whose fastest unit own_kernels.cu
// does not use. Throws MissingError when a kernel fails.
Ceilings ceilings_of(Gpu&, const std::filesystem::path& cache);
// Measured again; the greater of each is kept and written.
Ceilings raised_ceilings(Gpu&, const std::filesystem::path& cache, Ceilings known);

}  // namespace cultivar::cuda
