// SPDX-License-Identifier: Apache-2.0
// The results of a series of driver calls.
#pragma once

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {

// Keeps the first failure.
class Steps {
 public:
  Steps& operator<<(Result next) {
    if (result_ == result::success) result_ = next;
    return *this;
  }
  Result result() const { return result_; }

 private:
  Result result_ = result::success;
};

}  // namespace cultivar::cuda
