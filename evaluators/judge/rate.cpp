// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/rate.hpp"

namespace cultivar {

std::string unit_of(const Task& task, Target target) {
  switch (task.cost.report) {
    case Cost::Report::bytes:
      return "GB/s";
    case Cost::Report::time:
      return "runs/s";
    case Cost::Report::flops:
      break;
  }
  return target->unit;
}

double rate_of(const Task& task, const Workload& workload, Target target, double seconds) {
  switch (task.cost.report) {
    case Cost::Report::bytes:
      return task.bytes(workload) / seconds / 1e9;
    case Cost::Report::time:
      return 1.0 / seconds;
    case Cost::Report::flops:
      break;
  }
  return task.flops(workload) / seconds / target->unit_scale;
}

}  // namespace cultivar
