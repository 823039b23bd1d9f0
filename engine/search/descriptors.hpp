// SPDX-License-Identifier: Apache-2.0
// What a measured variant is like, as numbers by name: the axes of map_elites.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// What the compiler reported (Resources, the shares included), and of the plan for one workload:
// - launches: the number of kernels that run;
// - passes: the bytes of all buffers that the kernels get, each time that one gets it, over the bytes of the
//   task's tensors: 1 if one kernel gets each tensor once;
// - workspace_bytes;
// where kernels have blocks, also:
// - block_threads, block_shared_bytes (static and dynamic): the largest of all kernels;
// - occupancy: the share of the warps that a multiprocessor can hold, in percent, the smallest of all
//   kernels. Registers and static shared memory are the largest of the binary's kernels.
// Only the compiler's numbers if there is no plan.
std::map<std::string, double> descriptors_of(const Resources&, const Variant&, const Task&, const Workload&,
                                             const Facts&);
// The names of all that a kernel for this target can have.
std::vector<std::string> descriptor_names(Target);

}  // namespace cultivar
