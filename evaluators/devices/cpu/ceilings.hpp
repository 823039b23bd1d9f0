// SPDX-License-Identifier: Apache-2.0
// Peak rates of this machine, measured with Cultivar's own kernels in cells, as candidates are.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/devices/device.hpp"

namespace cultivar {

// `name` identifies the machine (processor model and core count). If `cache` holds a file for it, returns
// that file's values. Otherwise measures with all cores of the device, which takes about two seconds, and
// writes the file. Throws MissingError when a kernel fails.
Ceilings cpu_ceilings(Device&, const std::string& name, const std::filesystem::path& cache,
                      bool again = false);

// Measures Device::traffic with all cores; buffers of more than 512 MiB together are scaled down, and the
// times up. Throws MissingError when a kernel fails.
Traffic cpu_traffic(Device&, const std::filesystem::path& cache, double read_bytes, double written_bytes);

}  // namespace cultivar
