// Negative controls: wrong outputs that the comparison must refuse. A task that lets one of them pass judges
// nothing, and is itself refused when a worker loads it.
#pragma once

#include "evaluators/check/oracle.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// Built in, for each output tensor alone while the others are right: zeros; the mean; a copy of an input of
// the same shape; the output of other inputs; the right output rounded to fp8 (e4m3). And the task's own
// `control_*`, where their `when` holds. The oracle itself, rounded to the outputs' types, must pass. An
// Error names the control, the shape and what to change.
Expected<void> check_controls(const Task&, const OracleLibrary&, TargetKind, int threads);

double round_to_fp8(double value);  // e4m3: 3 bits of mantissa, at most 448, least step 2^-9

}  // namespace cultivar
