// SPDX-License-Identifier: Apache-2.0
// The instructions that read a clock without a system call: rdtsc, rdtscp, rdpru. A cell asks the system to
// let them fault (prctl PR_SET_TSC). Some virtual machines accept that without effect; there, the screen
// looks for them.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/devices/cpu/code/elf_image.hpp"

namespace cultivar {

// Whether they fault in a process that asked for it: tried once, in a child process. True where they do not
// exist.
bool clock_instructions_fault();

// The first of them in the object's code as objdump reads it, empty if there is none. One that only a jump
// into another instruction reaches is not found. Where objdump fails, code with the bytes of one counts as
// one.
std::string clock_instruction_in(const ElfImage& image, const std::filesystem::path& object);

}  // namespace cultivar
