// A GPU as a device of the cascade.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/targets/target.hpp"

namespace cultivar {

// `index` counts the GPUs that this process may see: those of CUDA_VISIBLE_DEVICES, where that is set (Slurm
// does), or else all, as nvidia-smi numbers them. From here on this process sees that one alone: one call a
// process, before anything else starts the driver. `cache`: the judge's own kernels and measured ceilings.
// `compiler`: cultivar-nvrtc; empty: beside the running program. Throws MissingError when there is no driver,
// no such device, no NVRTC, or the GPU does not answer.
std::unique_ptr<Device> open_cuda_device(int index, const std::filesystem::path& cache,
                                         const std::filesystem::path& compiler = {});

}  // namespace cultivar
