// SPDX-License-Identifier: Apache-2.0
// The check build of a cpu kernel: the same source, compiled without optimization, with a counter at the
// beginning of each basic block, with locals that hold a pattern until they are written, and with checks of
// the indices of arrays whose size is known. Threads of one launch may not share memory that one of them
// writes: the compiler's calls for its thread sanitizer are answered by a table of recently used places, so a
// conflict is found in whatever order the threads ran. Sources with synchronization or memory of their own
// are compiled without that. Two things of it are code of ours, linked into the object: what a block calls,
// and the kernel that says where the counters lie.
//
// The counters are bytes of a buffer that the plan of a check build has beside its own
// (judge/check_build_runs.hpp): the byte at the offset of an instruction is 1 if the block at that place ran.
// The first bytes, where an object has its headers and no code, hold a Violation (coverage/coverage.hpp);
// the last `check_build_table` bytes are the table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/coverage/coverage.hpp"

namespace cultivar {

// The options behind those of an ordinary build, which they override. The sets after the first are for
// sources that do not compile so.
std::vector<std::vector<std::string>> check_build_flags(std::string_view source);
inline constexpr std::size_t check_build_table = (std::size_t{32} << 15) + 64;
// The file that is compiled and linked with the kernel.
inline constexpr std::string_view check_build_file = "cultivar_check_build.cpp";
std::string_view check_build_source();

// The blocks in the output of `objdump -d -l --inlines`. `files`: the kernel's own.
std::vector<CodeBlock> blocks_in(std::string_view listing, const std::vector<std::string>& files);

}  // namespace cultivar
