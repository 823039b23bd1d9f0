// SPDX-License-Identifier: Apache-2.0
// Runs stages 3 to 8 and 11 for one variant on one device, cheapest first, and stops at the first failure.
// Uses targets only through target.hpp; runs in a device worker.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "evaluators/check/oracle.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/judge/requests.hpp"
#include "evaluators/judge/sampler.hpp"

namespace cultivar {

struct CascadeSite {
  Device& device;
  const Task& task;
  const TaskReference& oracle;
  double run_deadline_s = 10.0;
  Announce progress = [](const Activity&) {};
  std::shared_ptr<TimingStock> stock = {};  // kept from one request to the next; none: made when needed
  // Progress that must arrive before anything else happens. May be called from another thread.
  Announce announce = [](const Activity&) {};
  ContenderSettings contenders = {};
  // Whether a duel is no longer needed; asked between its pairs.
  std::function<bool()> enough = [] { return false; };
};

Evaluation run_cascade(const CascadeSite&, const EvaluateRequest&);

// One hash for the binaries that the workloads use; equal for equal machine code.
std::string machine_code(const Task&, const Compiled&, const std::vector<Workload>&);

}  // namespace cultivar
