// SPDX-License-Identifier: Apache-2.0
// The services of TaskJudge for the task softmax, of which most test kernels are variants.
#pragma once

#include "support/task_judge.hpp"

namespace cultivar::testing {

struct SoftmaxJudge : TaskJudge {
  SoftmaxJudge() : TaskJudge("softmax", {{"R", 8192}, {"C", 1024}}) {}
};

}  // namespace cultivar::testing
