// SPDX-License-Identifier: Apache-2.0
// The row of this machine's cores.
#pragma once

#include "evaluators/target/traits.hpp"

namespace cultivar {

Target cpu_target();

}  // namespace cultivar
