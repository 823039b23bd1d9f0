// The most this machine was seen to do, measured with kernels of our own in cells like any candidate's.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/targets/target.hpp"

namespace cultivar {

// `name` tells machines apart (model and core count); a file in `cache` made for it is believed. Otherwise
// measures with all cores of the device, about two seconds, and writes the file. Throws MissingError when a
// kernel fails.
Ceilings cpu_ceilings(Device&, const std::string& name, const std::filesystem::path& cache,
                      bool again = false);

}  // namespace cultivar
