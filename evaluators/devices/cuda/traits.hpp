// SPDX-License-Identifier: Apache-2.0
// The row of NVIDIA's GPUs.
#pragma once

#include "evaluators/target/traits.hpp"

namespace cultivar {

Target cuda_target();

}  // namespace cultivar
