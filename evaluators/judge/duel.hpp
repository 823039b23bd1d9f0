// SPDX-License-Identifier: Apache-2.0
// Stage 9 on the device: runs the blocks that the gate asks for, checks every timed output, and reports the
// gate's decision.
#pragma once

#include "evaluators/judge/cascade.hpp"

namespace cultivar {

// A challenger that fails during the duel is `worse`; if the incumbent or the control fails, the decision is
// `undecided`.
GateReport run_duel(const CascadeSite&, const GateRequest&);

// "5 of at most 2000 pairs, 3.1 of 10 s", and why a duel goes on beyond its limit of device time.
std::string duel_words(const std::string& doing, double spent_s, double limit_s);

}  // namespace cultivar
