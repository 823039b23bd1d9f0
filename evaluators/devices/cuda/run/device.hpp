// SPDX-License-Identifier: Apache-2.0
// A GPU as a Device.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "evaluators/devices/device.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

// `index` counts the GPUs that this process may see: those of CUDA_VISIBLE_DEVICES if it is set (Slurm sets
// it), otherwise all, in the order of nvidia-smi. From then on this process sees only that GPU, so call this
// once per process, before anything else starts the driver. `cache` holds the judge's own kernels and
// measured peak rates. `compiler` is the path of cultivar-nvrtc; empty: in the folder of the running program.
// Throws MissingError if there is no driver, no such device, no NVRTC, or the GPU does not respond.
std::unique_ptr<Device> open_cuda_device(int index, const std::filesystem::path& cache,
                                         const std::filesystem::path& compiler = {});

// Selects the GPU that a worker may see.

// The value of CUDA_VISIBLE_DEVICES for a process that may see only the GPU with this number. `listed` is the
// current value (nullopt: not set); its entries (numbers, UUIDs, MIG names) are counted from 0. The Error
// says that there are fewer entries.
Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index);

// The number of visible GPUs: the entries of CUDA_VISIBLE_DEVICES, or NVML's count; 0 if unknown.
int visible_gpus(const std::optional<std::string>& listed);

}  // namespace cultivar
