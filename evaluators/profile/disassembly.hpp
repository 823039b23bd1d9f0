// SPDX-License-Identifier: Apache-2.0
// Facts from the disassembly of native code: vector widths, number of registers used, spills, loops.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/profile/profile.hpp"
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

// The innermost loops of a cpu variant's machine code, with the source lines of their instructions.

// Of the output of `objdump -d -l --inlines` for x86-64. `files`: the names of the variant's own files; code
// of other files (intrinsics) counts for the line that it was inlined into. A loop around others is one of
// them if most multiply-adds are its own; one that calls a function with loops is none. Most likely to take
// the time first: those that call functions, then those inside the most other loops (with multiply-adds: as
// if inside one more), then those with the most multiply-adds; at most `most`.
std::vector<HotLoop> hot_loops(std::string_view listing, const std::vector<std::string>& files,
                               std::size_t most = 6);
// The same for a shared object that was compiled with -g1.
Expected<std::vector<HotLoop>> hot_loops_of(const std::filesystem::path& object, std::string_view source);

// Whether a function of this name handles many bytes in one call: such a call in a loop is no call for each
// element.
bool moves_blocks(const std::string& call);

// "lines 14 to 16 (softmax): 11 instructions, none on vectors, 3 on single floats, 2 loads, 1 stores; calls
// expf"
std::string words_of(const HotLoop&);

}  // namespace cultivar
