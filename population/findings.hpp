// SPDX-License-Identifier: Apache-2.0
// What the evaluation of an individual found, as far as later decisions depend on it. Everything here is in
// the record, so that a replay decides the same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

struct Findings {
  bool measured = false;
  double fitness = 0.0;
  IndividualId duplicate_of = 0;             // 0: none
  double device_s = 0.0;                     // of checks and measurements
  std::optional<Stage> rejected_at = {};     // the stage of a rejection
  std::vector<double> workload_values = {};  // in the order of the search's workloads
  std::map<std::string, double> descriptors =
      {};               // by name: what the compiler reported, for example registers
  double spread = 0.0;  // of log(fitness): see spread_of in engine/store/record_writer.hpp; 0: not known
};

}  // namespace cultivar
