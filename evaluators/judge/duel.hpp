// SPDX-License-Identifier: Apache-2.0
// Stage 9 on the device: runs the blocks that the gate asks for, checks every timed output, and reports the
// gate's decision.
#pragma once

#include "evaluators/judge/cascade.hpp"

namespace cultivar {

// Ends undecided, with its times, when CascadeSite::enough says so. A challenger that fails during the duel
// is `worse`; if the incumbent or the control fails, the decision is `undecided`.
GateReport run_duel(const CascadeSite&, const GateRequest&);

// "5 of at most 2000 pairs, 3.1 of 10 s", and why a duel goes on beyond its limit of device time. `needed_s`:
// what its noise requires for an effect of kToldEffect (outlook.hpp), if that is more than the limit;
// otherwise 0.
std::string duel_words(const std::string& doing, double spent_s, double limit_s, double needed_s = 0.0);

}  // namespace cultivar
