// SPDX-License-Identifier: Apache-2.0
// What a fault of a run or a session says of the variant.
#pragma once

#include <string>

#include "evaluators/devices/device.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// True for faults that noise on a busy machine can cause; a kernel with such a fault this many times in a row
// is rejected.
bool may_be_noise(Fault::Kind);
inline constexpr int kNoiseLimit = 3;

// The rejection for a fault: describes the fault and where to look for its cause.
Evaluation rejection_of(Stage, const Fault&, const std::string& where);

}  // namespace cultivar
