// SPDX-License-Identifier: Apache-2.0
// The parts of a bundle whose kernel the host runs.
#pragma once

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// Throws InputError if machine code for other machines is asked for.
Expected<TargetParts> cpu_parts(const ExportOrder&);
// The launcher header alone.
Expected<std::string> cpu_launcher_header(const LauncherInput&, const std::vector<Specialisation>&);

}  // namespace cultivar
