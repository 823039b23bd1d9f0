// SPDX-License-Identifier: Apache-2.0
// Which small shapes a bundle's verifier runs: some for every specialization of every kernel, of odd sizes
// where the kernel claims such.
#pragma once

#include <vector>

#include "engine/export/launcher_parts.hpp"

namespace cultivar {

inline constexpr std::size_t kVerifyShapes = 3;  // of a specialization, at most

// `kernel`: its index in the bundle. At least one for each specialization. The same kernel gets the same
// ones.
std::vector<VerifyShape> verify_shapes(const LauncherInput&, const std::vector<Specialisation>&,
                                       std::size_t kernel);

}  // namespace cultivar
