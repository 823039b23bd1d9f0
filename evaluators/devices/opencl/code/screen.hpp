// SPDX-License-Identifier: Apache-2.0
// What a compiled OpenCL program may not contain. Drivers for processors put shared objects with native code
// into the programs that they hand out (PoCL: one for each kernel); those can be read. Others are the
// driver's secret, and run on a device of its own.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "evaluators/devices/binary.hpp"

namespace cultivar {

struct OpenclCode {
  ScreenVerdict verdict;
  std::string hash;         // of native code where it is found, otherwise of the whole program
  double text_bytes = 0.0;  // of native code; 0: none was found
};

// Rejects native code that reads a clock, calls the operating system or a library, or has variables that it
// can write, all of which only inline assembly and builtins of the compiler can do. `scratch`: a folder for
// the files that are taken out.
OpenclCode examine_opencl_code(std::span<const std::byte> program, const std::filesystem::path& scratch);

// Whether an OpenCL source has inline assembly, which can jump over what the screen reads in the native code.

// "variant.cl:17 has inline assembly (asm)": the words asm, __asm and __asm__ outside of comments and
// literals, in the source as it is before macros are expanded, lines that end in a backslash joined. Empty:
// none.
std::string assembly_in_source(std::string_view file, std::string_view text);
// Whether LLVM's form of a program, as text, has any: whatever macros made it of.
bool has_assembly(std::string_view ir);

}  // namespace cultivar
