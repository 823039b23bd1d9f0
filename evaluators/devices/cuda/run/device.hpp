// SPDX-License-Identifier: Apache-2.0
// A GPU as a Device.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/devices/device.hpp"

namespace cultivar {

// `index` counts the GPUs that this process may see: those of CUDA_VISIBLE_DEVICES if it is set (Slurm sets
// it), otherwise all, in the order of nvidia-smi. From then on this process sees only that GPU, so call this
// once per process, before anything else starts the driver. `cache` holds the judge's own kernels and
// measured peak rates. `compiler` is the path of cultivar-nvrtc; empty: in the folder of the running program.
// Throws MissingError if there is no driver, no such device, no NVRTC, or the GPU does not respond.
std::unique_ptr<Device> open_cuda_device(int index, const std::filesystem::path& cache,
                                         const std::filesystem::path& compiler = {});

}  // namespace cultivar
