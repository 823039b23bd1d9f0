// SPDX-License-Identifier: Apache-2.0
// Whether an OpenCL source has inline assembly, which can jump over what the screen reads in the native code.
#pragma once

#include <string>
#include <string_view>

namespace cultivar {

// "variant.cl:17 has inline assembly (asm)": the words asm, __asm and __asm__ outside of comments and
// literals, in the source as it is before macros are expanded, lines that end in a backslash joined. Empty:
// none.
std::string assembly_in_source(std::string_view file, std::string_view text);
// Whether LLVM's form of a program, as text, has any: whatever macros made it of.
bool has_assembly(std::string_view ir);

}  // namespace cultivar
