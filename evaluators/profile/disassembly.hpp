// What the disassembly of native code tells: how wide its vectors are, how many registers it uses, what it
// spills.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "evaluators/error.hpp"

namespace cultivar {

// From `objdump -d` in AT&T syntax (x86-64), all functions together: instructions, widest_vector_bits,
// vector_instructions (on the widest registers), vector_registers (different ones), stack_accesses (loads and
// stores relative to the stack pointer: spilled registers and local arrays). Empty when there is no
// instruction that it knows.
std::map<std::string, double> vector_use(std::string_view disassembly);

// The same of a shared object, by the objdump of this machine. An Error says why not; it is no trouble of the
// variant's.
Expected<std::map<std::string, double>> vector_use_of(const std::filesystem::path& object);

}  // namespace cultivar
