// SPDX-License-Identifier: Apache-2.0
// Stage 2 on the cpu: what the shared object of a kernel may not contain. Runs before any of its code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/devices/binary.hpp"
#include "evaluators/devices/cpu/code/elf_image.hpp"

namespace cultivar {

// Rejects code that runs while the object loads, writable statics (a kernel could replay results kept between
// runs), calls other than mathematics and memory, and a missing kernel. This screen cannot see system calls
// made by inline assembly; the cell's seccomp filter stops them.
ScreenVerdict screen(const ElfImage&, const std::vector<std::string>& kernels);

// Whether a kernel may call this function of a library: mathematics, memory, and what compilers call
// themselves.
bool may_call(std::string_view name);

// Equal for equal kernels: covers code, constants, the names of called functions and where each of `kernels`,
// in the order of the plan, begins, but not comments, paths or the kernels' names.
std::string machine_code_hash(const ElfImage&, const std::vector<std::string>& kernels);

}  // namespace cultivar
