// Which values of a source's tunables may be tried at all: its constraints, for every workload of the search.
#pragma once

#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Keeps copies of all it needs. Not thread-safe.
class Feasibility {
 public:
  Feasibility(Variant, const Task&, const std::vector<Workload>&, const Facts&);

  bool operator()(const Configuration&) const;
  const std::vector<Tunable>& tunables() const { return variant_.manifest.tunables; }

 private:
  mutable Variant variant_;  // its configuration is replaced at each question
  Task task_;
  std::vector<Workload> workloads_;  // one for each different answer that the constraints can give
  Facts facts_;
};

}  // namespace cultivar
