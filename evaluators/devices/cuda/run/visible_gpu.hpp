// SPDX-License-Identifier: Apache-2.0
// Selects the GPU that a worker may see.
#pragma once

#include <optional>
#include <string>

#include "evaluators/system/error.hpp"

namespace cultivar {

// The value of CUDA_VISIBLE_DEVICES for a process that may see only the GPU with this number. `listed` is the
// current value (nullopt: not set); its entries (numbers, UUIDs, MIG names) are counted from 0. The Error
// says that there are fewer entries.
Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index);

// The number of visible GPUs: the entries of CUDA_VISIBLE_DEVICES, or NVML's count; 0 if unknown.
int visible_gpus(const std::optional<std::string>& listed);

}  // namespace cultivar
