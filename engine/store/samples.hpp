// SPDX-License-Identifier: Apache-2.0
// Raw samples as bytes: exact, and 8 bytes each when only the time is known.
#pragma once

#include <string>

#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// Little-endian. For each workload in order: u32 count, u8 columns (1: seconds only, 2: all), then column by
// column.
std::string pack_samples(const Evaluation&);
// Restores the samples; false when the bytes do not fit the workloads.
bool unpack_samples(const std::string& bytes, Evaluation&);

}  // namespace cultivar
