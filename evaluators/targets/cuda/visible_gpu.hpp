// Which GPU a worker may see.
#pragma once

#include <optional>
#include <string>

#include "evaluators/error.hpp"

namespace cultivar {

// What CUDA_VISIBLE_DEVICES must be for a process that shall see the GPU with this number alone. `listed` is
// its value so far (nullopt: not set), whose entries (numbers, UUIDs, MIG names) are counted from 0. The
// Error says that there are not so many.
Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index);

// How many there are to see: the entries of CUDA_VISIBLE_DEVICES, or what NVML counts. 0: nothing is known.
int visible_gpus(const std::optional<std::string>& listed);

}  // namespace cultivar
