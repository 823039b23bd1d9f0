// Which kernels really ran, and for how long, by CUPTI's activity records: the second opinion on what a plan
// launches and on what events say.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cultivar::cuda {

struct TracedKernel {
  std::string name;
  double begin_s = 0.0, end_s = 0.0;  // of one clock
};

// One a process: CUPTI has process-wide state. Not thread-safe.
class KernelTrace {
 public:
  KernelTrace();
  ~KernelTrace();
  const std::string& obstacle() const { return obstacle_; }  // empty: it works

  bool begin();                     // from here on kernels are recorded; false: it cannot, see obstacle()
  std::vector<TracedKernel> end();  // what has run since; the device must be idle
 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::string obstacle_;
};

}  // namespace cultivar::cuda
