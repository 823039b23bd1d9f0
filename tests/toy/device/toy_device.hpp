// SPDX-License-Identifier: Apache-2.0
// A device that is nobody's hardware: a machine of seven instructions on blocks of rows, interpreted in the
// worker. It shows what a new device needs: this folder, one line in a table, and one in CMake.
#pragma once

#include "evaluators/target/traits.hpp"

namespace cultivar::toy {

Target toy_device();

}  // namespace cultivar::toy
