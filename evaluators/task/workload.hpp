// SPDX-License-Identifier: Apache-2.0
// One assignment of a task's dimensions, parameters and dtype.
#pragma once

#include <string>
#include <vector>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/expression/expression.hpp"

namespace cultivar {

struct Workload {
  std::string name;  // unique within its set: "B8_H16_S4096_D128_causal_bf16"
  Dtype dtype = Dtype::f32;
  Bindings values;  // every dimension and every parameter of the task, defaults filled in
};

struct WorkloadSet {
  std::string name;
  std::string about;
  std::vector<Workload> workloads;
};

}  // namespace cultivar
