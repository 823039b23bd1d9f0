// SPDX-License-Identifier: Apache-2.0
// The entry of a bundle with several kernels: a launcher with the interface of one kernel's, which passes
// each call to the kernel that a dispatch table names.
#pragma once

#include "engine/export/dispatch_table.hpp"
#include "engine/export/domain.hpp"
#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// The folder of the bundle that holds a folder for each kernel.
inline constexpr std::string_view kKernelsFolder = "kernels";

// One kernel of the bundle, in the folder kKernelsFolder/NAME.
struct FrontKernel {
  std::string name;
  const LauncherInput& input;
};

// How a call finds its kernel. The table has indices of the kernels.
struct FrontDispatch {
  DispatchTable table;
  std::string learnt;  // from what, in words: "the 4 listed workloads"
  // The domain that it was learnt over; none: from listed workloads.
  std::vector<ValueRange> domain = {};
};

// A name of the kernels together and of what goes where, for namespaces and symbols: 12 hexadecimal digits.
std::string front_identity(const std::vector<FrontKernel>&, const DispatchTable&);

// The header. `front`: the task, and all workloads that any of the kernels serves; its variant is the first
// kernel's.
Expected<std::string> front_launcher_header(const LauncherInput& front, const std::vector<FrontKernel>&,
                                            const FrontDispatch&, const FrontWords&);

}  // namespace cultivar
