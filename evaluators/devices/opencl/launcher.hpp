// SPDX-License-Identifier: Apache-2.0
// The parts of a bundle whose kernel an OpenCL device runs. Its driver compiles the source, on the machine
// that runs it.
#pragma once

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// Throws InputError if machine code for other machines is asked for.
Expected<TargetParts> opencl_parts(const ExportOrder&);
// The launcher header alone.
Expected<std::string> opencl_launcher_header(const LauncherInput&, const std::vector<Specialisation>&);

}  // namespace cultivar
