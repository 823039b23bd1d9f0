// SPDX-License-Identifier: Apache-2.0
// The task as data for a bundle's verifier, and which small shapes that runs: some for every specialization
// of every kernel, of odd sizes where the kernel claims such.
#pragma once

#include <vector>

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// A small shape on which the verifier runs one specialization of one of the bundle's kernels.
struct VerifyShape {
  std::size_t kernel = 0;
  std::string specialisation;  // Specialisation::suffix
  Workload workload;
  bool stressed = false;  // one of the task's stress_shapes, for which all of its stress cases are made
};
// The data header of verify.cpp and contender.cpp: the task's tensors, rows, workloads, distributions and
// tolerance. `kernels`: the names of the bundle's kernels.
Expected<std::string> verify_data(const LauncherInput&, const std::vector<std::string>& kernels = {},
                                  const std::vector<VerifyShape>& = {});

inline constexpr std::size_t kVerifyShapes = 3;  // of a specialization, at most

// `kernel`: its index in the bundle. At least one for each specialization. The same kernel gets the same
// ones.
std::vector<VerifyShape> verify_shapes(const LauncherInput&, const std::vector<Specialisation>&,
                                       std::size_t kernel);

}  // namespace cultivar
