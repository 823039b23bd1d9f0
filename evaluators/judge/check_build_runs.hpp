// SPDX-License-Identifier: Apache-2.0
// Runs of check builds beside checks: a run that was right is repeated, with the same inputs, by the check
// build of the same source. It tells which blocks such a run executes, and finds what no output of the
// ordinary build need show: indices outside arrays, and locals that are read before they are written.
// And what is drawn while some blocks have not run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/check/compare.hpp"
#include "evaluators/coverage/coverage.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/requests.hpp"
#include "evaluators/judge/stages.hpp"

namespace cultivar {

// The plan of a check build: as that of the ordinary build, with the counters as one more output and a first
// kernel that clears them.
Plan check_plan(Plan, const Binary& check_build);

// For one evaluation. Keeps references to the device and the task.
class CheckBuildRuns {
 public:
  CheckBuildRuns(Device& device, const Task& task, const Compiled& compiled, double run_deadline_s);

  // Whether to repeat a run on this shape: as long as blocks of its specialisation have not run, a few times
  // at least, and all runs on small shapes while that is quick (kEveryRunSeconds). Not, when the runs so far
  // have taken their time (kCheckBuildSeconds).
  bool wanted(const Compiled&, const Workload&) const;
  // Repeats a run. `compare`: of its outputs; none: they are not compared. The permitted errors are those of
  // the task that it is called with, kLooser times the usual ones: without optimization nothing is contracted
  // to multiply-adds, and a value that was never written is far off. A slow build, or one that cannot be
  // started, is no rejection.
  using Compare =
      std::function<Comparison(const Task& loose, const std::vector<std::vector<std::byte>>& outputs)>;
  std::optional<Evaluation> repeat(Stage, const Compiled&, const Workload&, const RunInputs&,
                                   const std::string& where, std::uint64_t seed, const Compare& compare);

  const BlocksRun& blocks() const { return blocks_; }
  Coverage coverage() const;

  int drawn_runs = 0;  // for Coverage

 private:
  void missing(std::string why);

  Device& device_;
  const Task& task_;
  Task loose_;
  double run_deadline_s_;
  BlocksRun blocks_;
  std::map<BlocksRun::Macros, int> runs_;
  std::map<std::string, int> of_shapes_;  // by name
  std::set<BlocksRun::Macros> unusable_;
  std::vector<std::string> missing_;
  double seconds_ = 0.0;
  std::unique_ptr<Session> kept_;
  std::string kept_shape_;
  std::vector<std::vector<std::byte>> outputs_;
};

inline constexpr double kLooser = 16.0;
inline constexpr double kCheckBuildSeconds = 60.0, kEveryRunSeconds = 8.0, kSmallFlops = 3e7;
inline constexpr int kFewestCheckBuildRuns = 12;  // of one specialisation
inline constexpr int kMostRunsOfShape = 3;        // which runs differ from then on is rarely what is new

// Further checks, drawn because some blocks of the kernel have not run under a check.

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
