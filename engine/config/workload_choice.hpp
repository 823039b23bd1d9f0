// SPDX-License-Identifier: Apache-2.0
// What of a task is timed, and how long.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "evaluators/judge/requests.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The set that the user names, or the default set of a target. Throws InputError.
const WorkloadSet& choose_workloads(const Task&, const std::string& set, Target);
std::vector<Workload> claimed(const Variant&, const Task&, const std::vector<Workload>&);

// How often and how long a search times a kernel, as requests to a device say it.
inline Sampling sampling_of(const EvaluationConfig& e) {
  Sampling sampling;
  sampling.screening_samples = e.screening_samples;
  sampling.screening_seconds = e.screening_seconds;
  sampling.max_samples = e.max_samples;
  sampling.max_seconds = e.max_seconds;
  sampling.oracle_rows = e.oracle_rows;
  return sampling;
}

}  // namespace cultivar
