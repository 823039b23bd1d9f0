// Facts from the disassembly of native code: vector widths, number of registers used, spills.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "evaluators/system/error.hpp"

namespace cultivar {

// From the output of `objdump -d` in AT&T syntax (x86-64), over all functions: instructions,
// widest_vector_bits, vector_instructions (on the widest registers), vector_registers (distinct ones),
// stack_accesses (loads and stores relative to the stack pointer: spilled registers and local arrays). Empty
// if it contains no known instruction.
std::map<std::string, double> vector_use(std::string_view disassembly);

// As above, for a shared object, with this machine's objdump. An Error gives the reason; it is not the
// variant's fault.
Expected<std::map<std::string, double>> vector_use_of(const std::filesystem::path& object);

}  // namespace cultivar
