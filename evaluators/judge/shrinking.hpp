// SPDX-License-Identifier: Apache-2.0
// Looks for the smallest shape and the simplest values on which a variant still fails, for whoever must find
// the mistake.
#pragma once

#include <functional>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

// One check on a drawn shape.
struct DrawnRun {
  Workload shape;
  CheckValues values;
  std::uint64_t seed = 0;
};

// The rejection by the simplest run that was found to fail like `run`, which failed with `wrong`; its
// diagnostics also name the run that was found first. At most a few dozen runs, for at most a few seconds.
// `runs`: whether the variant may run on a shape. What the machine or time-outs cause is returned as it is.
Evaluation shrunk(Checker&, const Task&, const Compiled&, const std::function<bool(const Workload&)>& runs,
                  const DrawnRun& run, Evaluation wrong);

}  // namespace cultivar
