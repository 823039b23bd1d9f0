// SPDX-License-Identifier: Apache-2.0
// Facts from the disassembly of native code: vector widths, number of registers used, spills.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

// From the output of `objdump -d` in AT&T syntax (x86-64), over all functions: instructions,
// widest_vector_bits, vector_instructions (on the widest registers), vector_registers (distinct ones),
// stack_accesses (loads and stores relative to the stack pointer: spilled registers and local arrays), and,
// if there are any, streamed_stores (that bypass the caches). Empty if it contains no known instruction.
std::map<std::string, double> vector_use(std::string_view disassembly);

// The output of this machine's objdump -d for a shared object's code, with more options. An Error gives the
// reason; it is not the variant's fault.
Expected<std::string> disassembled(const std::filesystem::path& object,
                                   const std::vector<std::string>& more = {});
// vector_use() of it.
Expected<std::map<std::string, double>> vector_use_of(const std::filesystem::path& object);

}  // namespace cultivar
