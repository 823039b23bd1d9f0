// SPDX-License-Identifier: Apache-2.0
// The PTX that Triton writes, as one module that any launcher can use.
#pragma once

#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct TritonKernelText {
  std::string kernel, ptx;
  std::size_t arguments = 0;  // that the launch gives
};

// Without the parameters that Triton adds behind a kernel's own, for scratch memory of its launcher, and
// without folders in the names of files. An Error: one of those parameters is used.
Expected<std::string> one_module(const std::vector<TritonKernelText>&);

}  // namespace cultivar
