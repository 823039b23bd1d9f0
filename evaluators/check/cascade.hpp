// Stages 3 to 8 and 11 of one variant on one device, cheapest first, ended by the first failure. Knows
// targets only through target.hpp; runs in a device worker.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "evaluators/check/oracle.hpp"
#include "evaluators/timing/sampler.hpp"
#include "evaluators/worker/requests.hpp"

namespace cultivar {

struct CascadeSite {
  Device& device;
  const Task& task;
  const OracleLibrary& oracle;
  double run_deadline_s = 10.0;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::shared_ptr<TimingStock> stock = {};  // kept from one request to the next; none: made when needed
  // Progress that must arrive before anything else happens.
  std::function<void(const std::string&)> announce = [](const std::string&) {};
};

Evaluation run_cascade(const CascadeSite&, const EvaluateRequest&);

// One hash for the binaries that the workloads use: equal for equal machine code.
std::string machine_code(const Task&, const Compiled&, const std::vector<Workload>&);

}  // namespace cultivar
