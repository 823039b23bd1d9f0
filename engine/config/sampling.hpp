// SPDX-License-Identifier: Apache-2.0
// How often and how long a search times a kernel, as requests to a device say it.
#pragma once

#include "engine/config/config.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

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
