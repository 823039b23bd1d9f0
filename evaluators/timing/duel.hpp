// Stage 9 on the device: runs the blocks that the gate asks for, every timed output checked, and reports its
// decision.
#pragma once

#include "evaluators/check/cascade.hpp"

namespace cultivar {

// A challenger that fails during the duel is `worse`; an incumbent or control that fails leaves it
// `undecided`.
GateReport run_duel(const CascadeSite&, const GateRequest&);

}  // namespace cultivar
