// Peak rates of this machine, measured with Cultivar's own kernels in cells, as candidates are.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/targets/target.hpp"

namespace cultivar {

// `name` identifies the machine (processor model and core count). If `cache` holds a file for it, returns
// that file's values. Otherwise measures with all cores of the device, which takes about two seconds, and
// writes the file. Throws MissingError when a kernel fails.
Ceilings cpu_ceilings(Device&, const std::string& name, const std::filesystem::path& cache,
                      bool again = false);

}  // namespace cultivar
