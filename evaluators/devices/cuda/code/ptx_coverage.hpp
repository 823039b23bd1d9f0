// SPDX-License-Identifier: Apache-2.0
// Counters in PTX: a store at the beginning of each basic block, for a check build. What this writes runs
// only beside checks and is never screened; the ordinary build of the same source was.
//
// A kernel `cultivar_check_begin`, which is added, clears the counters and notes where they lie; it is the
// first kernel of the plan of a check build. Inline assembly is not touched: a block of its own that begins
// there counts as part of the one around it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

struct CountedPtx {
  std::string text;
  std::vector<CodeBlock> blocks;
  std::uint64_t counters = 0;  // bytes; the first violation_bytes are no counters
};

// `files`: the kernel's own. PTX as NVRTC writes it, with --generate-line-info; anything else is an Error.
Expected<CountedPtx> with_counters(std::string_view ptx, const std::vector<std::string>& files);

}  // namespace cultivar
