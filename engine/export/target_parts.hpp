// SPDX-License-Identifier: Apache-2.0
// The parts of a bundle that depend on the target.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/export/launcher_parts.hpp"
#include "engine/search/search.hpp"

namespace cultivar {

struct TargetParts {
  std::map<std::string, std::string> files;                // the launcher and the files that it needs
  std::string_view cmake, bench, device, code;             // templates
  std::map<std::string, std::string, std::less<>> values;  // for templates
  std::vector<std::string> architectures;                  // cuda
};

// May compile in the runtime's workers. Throws MissingError when the compiler is not installed or does not
// support an architecture.
using Exporter = Expected<TargetParts> (*)(const LauncherInput&, const std::vector<Specialisation>&,
                                           const Runtime&, std::vector<std::string> architectures);
Exporter exporter_of(Target);  // nullptr: kernels of this target are not exported

}  // namespace cultivar
