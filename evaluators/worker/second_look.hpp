// SPDX-License-Identifier: Apache-2.0
// What a kind of device looks for in a kernel that all checks have accepted: errors that no output reveals.
// The device's row makes it; a confirmation ends with it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/judge/requests.hpp"

namespace cultivar {

// For one device. Not thread-safe, but interrupt() may be called from any thread.
class SecondLook {
 public:
  struct Outcome {
    std::optional<Evaluation> rejection;  // at stage `confirm`
    std::string note;                     // why there is no result, in one line; empty if there is one
    bool lost = false;  // rejected because a tool or its worker ended unexpectedly each time
  };
  using Progress = std::function<void(const std::string&)>;

  virtual ~SecondLook() = default;
  virtual void prepare() = 0;  // begins to start, which takes seconds
  // On small shapes in the dtypes of the workloads. A progress function is called by one thread at a time.
  virtual Outcome run(const Compiled&, const std::vector<Workload>&, const Progress&) = 0;
  virtual void interrupt() = 0;  // permanent
};

}  // namespace cultivar
