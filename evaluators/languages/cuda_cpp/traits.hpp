// SPDX-License-Identifier: Apache-2.0
// The row of CUDA C++.
#pragma once

#include "evaluators/target/language.hpp"

namespace cultivar {

Language cuda_cpp_language();

}  // namespace cultivar
