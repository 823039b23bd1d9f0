// SPDX-License-Identifier: Apache-2.0
// Decides which values of a source's tunables are feasible: they must satisfy the constraints for every
// workload of the search and every claimed shape of the task, because a kernel runs on all of them before it
// can become the best.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Keeps copies of everything it needs. Not thread-safe.
class Feasibility {
 public:
  Feasibility(Variant, const Task&, std::vector<Workload>, const Facts&);

  bool operator()(const Configuration&) const;
  // The same for value indices in the order of the tunables. Fast, because a surrogate checks thousands of
  // points: each constraint is evaluated once for each combination of the tunables that it depends on.
  bool at(std::span<const int> point) const;
  const std::vector<Tunable>& tunables() const { return tunables_; }

 private:
  // One constraint with the lets that it uses, or one let that no constraint uses (it must still have a
  // value).
  struct Question {
    Variant variant;  // has only this constraint; its configuration is replaced for each check
    std::vector<Workload> workloads;   // one for each distinct set of values
    std::vector<std::size_t> depends;  // the tunables that the constraint depends on
    std::vector<std::int8_t>
        known;  // cache by combination: 0 unknown, 1 yes, -1 no; empty: too many combinations
  };
  void add_question(const Variant&, const std::vector<Expression>& constraints,
                    const std::vector<std::string>& names, const std::vector<Workload>&);
  bool holds(Question&, const Configuration&) const;

  std::vector<Tunable> tunables_;
  Task task_;
  Facts facts_;
  mutable std::vector<Question> questions_;
  std::size_t known_ = 0;  // bytes of all caches
};

}  // namespace cultivar
