// A GPU as a device of the cascade.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/targets/target.hpp"

namespace cultivar {

// `cache`: the judge's own kernels and measured ceilings. `compiler`: cultivar-nvrtc; empty: beside the
// running program. Throws MissingError when there is no driver, no such device, no NVRTC, or the GPU does not
// answer.
std::unique_ptr<Device> open_cuda_device(int index, const std::filesystem::path& cache,
                                         const std::filesystem::path& compiler = {});

}  // namespace cultivar
