// SPDX-License-Identifier: Apache-2.0
// Stage 2 on the cpu: what the shared object of a kernel may not contain. Runs before any of its code.
#pragma once

#include <filesystem>
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

// The instructions that read a clock without a system call: rdtsc, rdtscp, rdpru. A cell asks the system to
// let them fault (prctl PR_SET_TSC). Some virtual machines accept that without effect; there, the screen
// looks for them.

// Whether they fault in a process that asked for it: tried once, in a child process. True where they do not
// exist.
bool clock_instructions_fault();

// The first of them in the object's code as objdump reads it, empty if there is none. One that only a jump
// into another instruction reaches is not found. Where objdump fails, code with the bytes of one counts as
// one.
std::string clock_instruction_in(const ElfImage& image, const std::filesystem::path& object);

}  // namespace cultivar
