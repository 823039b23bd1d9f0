// SPDX-License-Identifier: Apache-2.0
// The entry of a bundle with several kernels: a launcher with the interface of one kernel's, which passes
// each call to the kernel of the nearest measured workload.
#pragma once

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// The folder of the bundle that holds a folder for each kernel.
inline constexpr std::string_view kKernelsFolder = "kernels";

// One kernel of the bundle, in the folder kKernelsFolder/NAME.
struct FrontKernel {
  std::string name;
  const LauncherInput& input;
};

struct DispatchEntry {
  Workload workload;
  std::size_t kernel = 0;  // index into the kernels
};

// What makes two shapes of one kind: equal flags, equal values of the dimensions for which a kernel is
// specialized, and the same other parameters set (not zero). Inside a kind, the distance of two shapes is
// that of the logarithms of their dimensions and whole-number parameters.
struct Dispatch {
  std::vector<std::string> kinds;  // names
  std::vector<std::string> sizes;
};
Dispatch dispatch_of(const Task&, const std::vector<FrontKernel>&);

// A name of the kernels together and of what goes where, for namespaces and symbols: 12 hexadecimal digits.
std::string front_identity(const std::vector<FrontKernel>&, const std::vector<DispatchEntry>&);

// The header. `front`: the task, and all workloads that any of the kernels serves; its variant is the first
// kernel's. The entries are not empty.
Expected<std::string> front_launcher_header(const LauncherInput& front, const std::vector<FrontKernel>&,
                                            const std::vector<DispatchEntry>&);

}  // namespace cultivar
