// SPDX-License-Identifier: Apache-2.0
// Hardware counters and samples that a device can collect while sessions run on it (stage 10). Such runs are
// slower than others, and what the instruments leave in their process slows all later runs. A process that
// used one instrument therefore ends before anything is timed, and uses no other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct SourceLine {
  std::string file;  // the name without folders: "variant.cu"
  int line = 0;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

struct PcSample {  // program counter samples of the warps of one function
  std::string function;
  std::uint64_t offset = 0;  // of the instruction, from the start of the function
  std::string reason;        // why the warp stalled, such as "long_scoreboard"; "selected": it did not stall
  std::uint64_t samples = 0;
  std::uint64_t exposed = 0;  // samples of these in which the scheduler had nothing else to issue
  // Of the instruction, followed by the lines from which it was inlined, innermost first; empty: unknown.
  std::vector<SourceLine> lines = {};
};
struct PcSamples {
  std::vector<PcSample> samples;
  std::uint64_t total = 0, dropped = 0;  // as counted by the hardware
  std::string without_lines = {};        // why no line is known; empty: lines are known
};

using CounterValues = std::map<std::string, double, std::less<>>;  // by key

// An Error has kind denied when the user may not profile on this machine and kind missing when a library is
// absent; otherwise it names the call that failed. Not thread-safe.
class Instruments {
 public:
  virtual ~Instruments() = default;

  enum class Replay {
    by_kernel,
    by_run
  };  // how several passes are made: repeat each launch, or the whole run
  // Starts counting every kernel that a session launches, in the full set of counters or in the quick one.
  // `kernels` is the number of launches in one run.
  virtual Expected<void> begin_counting(bool full, std::size_t kernels, Replay) = 0;
  // Call after each run. Returns false if another pass needs the same run again. An Error means that counting
  // has failed.
  virtual Expected<bool> counted() const = 0;
  // Ends counting. Returns values by kernel, in launch order.
  virtual Expected<std::vector<CounterValues>> end_counting() = 0;
  // The counters of the set that others of this kind have and this device lacks, by key; after
  // begin_counting.
  virtual std::vector<std::string> absent() const { return {}; }
  virtual std::size_t passes() const = 0;  // needed, as determined by begin_counting

  // Starts sampling the program counters of what sessions launch, on each multiprocessor every 2^`period`
  // cycles (5 to 31). Kernels of sessions opened earlier may be missing from the samples.
  virtual Expected<void> begin_sampling(int period) = 0;
  // `binary`: of the kernels, with their source lines.
  virtual Expected<PcSamples> end_sampling(const std::filesystem::path& binary) = 0;
};

}  // namespace cultivar
