// SPDX-License-Identifier: Apache-2.0
// Which kernels ran and for how long, from CUPTI's activity records: an independent check of what a plan
// launches and of event times.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/devices/device.hpp"

namespace cultivar::cuda {

struct TracedKernel {
  std::string name;  // of a kernel that was unloaded before, if the driver gave its handle to this one
  double begin_s = 0.0, end_s = 0.0;  // on the same clock
  std::array<std::int32_t, 3> grid = {}, block = {};
};

// At most one per process, because CUPTI has process-wide state. Not thread-safe.
class KernelTrace {
 public:
  KernelTrace();
  ~KernelTrace();
  const std::string& obstacle() const { return obstacle_; }  // empty if tracing works

  bool begin();                     // starts recording kernels; false if it cannot, see obstacle()
  std::vector<TracedKernel> end();  // the kernels recorded since begin(); the device must be idle
 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::string obstacle_;
};

// Compares the kernels that CUPTI saw in one run with those of the plan, and their time with that of the
// events.
// Kernels are compared by grid and block, because CUPTI reports some under the name of one that was unloaded
// before (seen on an H200: `softmax` for `softmax_registers`). A record that is missing blames nobody: under
// load CUPTI loses some. `foreign`: a contender's library, which may launch what it likes, and copies.
std::optional<Fault> compare_trace(const Plan&, bool foreign, const std::vector<TracedKernel>& seen,
                                   double event_seconds);

}  // namespace cultivar::cuda
