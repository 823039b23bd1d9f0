// The generated parts of a cuda bundle.
#pragma once

#include "engine/export/launcher_parts.hpp"

namespace cultivar {

// One compiled file of the bundle.
struct CubinFile {
  std::size_t specialisation = 0;  // of the list that the launcher is made for
  std::string architecture;        // "sm_90a"
  std::string name;                // "D64_causal1.sm_90a.cubin"
};

// The launcher header: every expression of the plan in C++, evaluated for each call's sizes.
Expected<std::string> cuda_launcher_header(const LauncherInput&, const std::vector<Specialisation>&,
                                           const std::vector<CubinFile>&);
// A C++ file that holds the cubins, which its assembler reads from the folder `cubin`.
std::string cuda_cubin_source(const Variant&, const std::vector<CubinFile>&);

}  // namespace cultivar
