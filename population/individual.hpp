// A variant with its evaluation and its descent. Ids are small integers, given by the record in order of
// proposal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

using IndividualId = std::int64_t;  // 1, 2, 3, ...; 0 = none

struct Descent {
  std::vector<IndividualId> parents;  // empty for seeds
  std::string op;                     // "seed", "submit", "tune", "crossover_knobs", ...
  std::string model;                  // empty without a language model
  double usd = 0.0;
  std::int64_t tokens = 0;
  int island = 0;
  std::string note;  // what the operator meant to do, in words
};

// What the record keeps of an individual beside its source and its evaluations.
struct Individual {
  IndividualId id = 0;
  std::string variant_id, source_id;
  std::string
      machine_code;  // hash of its binaries and launch plans: equal for equal kernels; empty before compile
  Configuration configuration;
  Descent descent;
  bool measured = false;
  IndividualId duplicate_of =
      0;  // the individual with the same machine code, which was measured in its place
  double fitness = 0.0;
  std::vector<double> workload_values;  // in the order of the search's workloads
};

}  // namespace cultivar
