// SPDX-License-Identifier: Apache-2.0
// The check build of an OpenCL kernel, where the driver is PoCL: the same source, compiled without
// optimization, with a store at the beginning of each basic block of the program that the driver keeps, which
// is LLVM's bitcode.
//
// The counters lie at a fixed address (devices/opencl/code/cell_layout.hpp), so kernels need no further
// parameter; the cell maps them, clears them before a run and hands them out after it. What this writes runs
// only beside checks and is never screened; the ordinary build of the same source was.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

struct CountedIr {
  std::string text;
  std::vector<CodeBlock> blocks;
  std::uint64_t counters = 0;  // bytes; the first violation_bytes are no counters
};

// `ir`: LLVM's text, as clang writes it with -g and without optimization. The driver's own copy of the source
// (a .cl file of any name) is `main_file`; other files are the kernel's if they are among `headers`. Blocks
// of other files have no counters.
CountedIr with_counters(std::string_view ir, std::string_view main_file,
                        const std::vector<std::string>& headers, std::uint64_t address);

// The driver's program with other bitcode in place of its own. The error says that the form is not that of
// PoCL 3.
Expected<std::string> with_bitcode(std::string_view program, std::string_view own, std::string_view other);

// "15": of the clang that wrote bitcode; empty: it does not say.
std::string clang_of(std::string_view bitcode);

}  // namespace cultivar
