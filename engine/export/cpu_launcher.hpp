// SPDX-License-Identifier: Apache-2.0
// The generated parts of a cpu bundle.
#pragma once

#include "engine/export/launcher_parts.hpp"

namespace cultivar {

// The launcher header.
Expected<std::string> cpu_launcher_header(const LauncherInput&, const std::vector<Specialisation>&);
// cultivar_kernel(...) lines for CMakeLists.txt.
std::string cpu_cmake_kernels(const LauncherInput&, const std::vector<Specialisation>&);

}  // namespace cultivar
