// SPDX-License-Identifier: Apache-2.0
// What kernels of every target may rely on, what checks give them at times and no more, and what exported
// launchers ask of callers: tensors begin at multiples of this many bytes.
#pragma once

#include <cstddef>

namespace cultivar {

inline constexpr std::size_t kTensorAlignment = 64;

}  // namespace cultivar
