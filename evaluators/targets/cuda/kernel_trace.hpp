// Which kernels ran and for how long, from CUPTI's activity records: an independent check of what a plan
// launches and of event times.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cultivar::cuda {

struct TracedKernel {
  std::string name;
  double begin_s = 0.0, end_s = 0.0;  // on the same clock
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

}  // namespace cultivar::cuda
