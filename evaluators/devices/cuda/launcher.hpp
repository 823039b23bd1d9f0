// SPDX-License-Identifier: Apache-2.0
// The parts of a bundle whose kernel a GPU runs.
#pragma once

#include "evaluators/devices/binary.hpp"
#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// One compiled file of the bundle.
struct CubinFile {
  std::size_t specialisation = 0;  // index into the launcher's specializations
  std::string architecture;        // "sm_90a"
  std::string name;                // "D64_causal1.sm_90a.cubin"
  LaunchChoices chosen = {};
};

Expected<TargetParts> cuda_parts(const ExportOrder&);
// The launcher header alone, with every expression of the plan in C++, evaluated for the sizes of each call.
// `made_by`: the compiler, for messages of a driver that refuses the code.
Expected<std::string> cuda_launcher_header(const LauncherInput&, const std::vector<Specialisation>&,
                                           const std::vector<CubinFile>&,
                                           const std::string& made_by = "NVRTC");
// A C++ file that embeds the cubins; the assembler reads them from the folder `cubin`.
std::string cuda_cubin_source(const Variant&, const std::vector<CubinFile>&);

}  // namespace cultivar
