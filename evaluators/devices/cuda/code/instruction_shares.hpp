// SPDX-License-Identifier: Apache-2.0
// What a kernel consists of, by kinds of instructions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/code/ptx_text.hpp"

namespace cultivar {

// The shares of instructions of each kind in the PTX of these kernels and of the functions that are not
// inlined, in percent, rounded up, so that one instruction gives at least 1. Each instruction counts once,
// however often it runs. Not counted: moves and reads of parameters, which ptxas mostly removes.
// - tensor_share: mma, wmma.mma, wgmma.mma_async, tcgen05.mma;
// - special_share: ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, and divisions, which use rcp;
// - float_share: floating-point additions, multiplications and multiply-adds, also of pairs;
// - convert_share: cvt;
// - integer_share: other arithmetic: integers, addresses, logic, shifts, comparisons, selections, min, max;
// - global_share: accesses to global memory, also by generic addresses, and copies between it and shared
//   memory (cp.async, cp.async.bulk);
// - shared_share: accesses to shared memory, ldmatrix, stmatrix.
// The others (branches, barriers, exchanges within a warp, local and constant memory) are only part of the
// total. Empty if there are no instructions.
std::map<std::string, double> instruction_shares(const Ptx&, const std::vector<std::string>& kernels);

}  // namespace cultivar
