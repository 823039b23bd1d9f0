// SPDX-License-Identifier: Apache-2.0
// Measures how exact a variant and its contenders are, on the task's stress shapes: for its ordinary fills
// and for each stress case, on secret inputs that are the same for all sides.
#pragma once

#include "evaluators/judge/cascade.hpp"

namespace cultivar {

// The variant must have passed its checks. Contenders that do not take a shape have no figure there. Throws
// ContenderBrokeDevice.
std::vector<Exactness> measure_exactness(const CascadeSite&, const EvaluateRequest&, std::uint64_t seed);

}  // namespace cultivar
