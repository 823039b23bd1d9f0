// SPDX-License-Identifier: Apache-2.0
// Further checks, drawn because some blocks of the kernel have not run under a check.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/check_build_runs.hpp"
#include "evaluators/judge/stages.hpp"

namespace cultivar {

// The whole numbers that the source has in and shortly before these blocks, nearest first: what a block that
// never ran waits for is mostly a comparison with one of them. Comments and numbers below 2 do not count.
std::vector<std::int64_t> numbers_near(std::string_view source, const std::vector<CodeBlock>&);

// Draws until every block has run or kMostDrawnForBlocks checks were made: every stress case on a small and
// on a larger shape of the specialisation; each dimension and amount at, below and above each number near the
// blocks; and shapes and values at random. nullopt: what was drawn passed.
std::optional<Evaluation> check_unreached_blocks(Checker&, CheckBuildRuns&, const CascadeSite&,
                                                 const EvaluateRequest&, std::uint64_t seed);

inline constexpr int kMostDrawnForBlocks = 160;
inline constexpr double kDrawnForBlocksSeconds = 45.0;

}  // namespace cultivar
