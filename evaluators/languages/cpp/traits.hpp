// SPDX-License-Identifier: Apache-2.0
// The row of C++ for the host.
#pragma once

#include "evaluators/target/language.hpp"

namespace cultivar {

Language cpp_language();

}  // namespace cultivar
