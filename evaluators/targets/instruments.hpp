// What a device can count and sample while sessions run on it (stage 10). Such runs are slower than others,
// and what the instruments leave behind in their process slows all later ones: a process that has used one of
// them ends before anything is timed, and uses no other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

struct PcSample {  // of the program counters of a function's warps
  std::string function;
  std::uint64_t offset = 0;  // of the instruction, from the function's first
  std::string reason;        // why its warp waited: "long_scoreboard"; "selected": it did not
  std::uint64_t samples = 0;
  std::uint64_t exposed = 0;  // of these, while the scheduler had nothing else to issue
};
struct PcSamples {
  std::vector<PcSample> samples;
  std::uint64_t total = 0, dropped = 0;  // as the hardware counted them
};

// Errors have the stage "permission" when the user may not profile on this machine, "missing" when a library
// is not there, and otherwise name the call that failed. Not thread-safe.
class Instruments {
 public:
  virtual ~Instruments() = default;

  enum class Replay { by_kernel, by_run };  // several passes: each launch repeated, or the whole run
  // From now on each kernel that a session launches is counted. `kernels`: how many one run launches.
  virtual Expected<void> begin_counting(const std::vector<std::string>& metrics, std::size_t kernels,
                                        Replay) = 0;
  // After a run: false when the same run is wanted again, for another pass. An Error: counting has failed.
  virtual Expected<bool> counted() const = 0;
  // By kernel in the order of their launches, by metric. Ends counting.
  virtual Expected<std::vector<std::vector<double>>> end_counting() = 0;
  // Those of the metrics that this chip has.
  virtual Expected<std::vector<std::string>> available(const std::vector<std::string>& metrics) = 0;
  virtual std::size_t passes() const = 0;  // that begin_counting found to be needed

  // From now on the program counters of what sessions launch are sampled, on each multiprocessor every
  // 2^`period` cycles (5 to 31). Sessions that were opened before may stay unknown.
  virtual Expected<void> begin_sampling(int period) = 0;
  virtual Expected<PcSamples> end_sampling() = 0;
};

}  // namespace cultivar
