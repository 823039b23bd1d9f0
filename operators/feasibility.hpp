// Which values of a source's tunables may be tried at all: its constraints, for every workload of the search
// and every shape of the task that it claims, since it will be run on all of them before it may become the
// best.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Keeps copies of all it needs. Not thread-safe.
class Feasibility {
 public:
  Feasibility(Variant, const Task&, std::vector<Workload>, const Facts&);

  bool operator()(const Configuration&) const;
  // The same for value indices in the order of the tunables, as a surrogate asks for thousands of points:
  // each constraint is evaluated once for each combination of the tunables that it depends on.
  bool at(std::span<const int> point) const;
  const std::vector<Tunable>& tunables() const { return tunables_; }

 private:
  // One constraint with the lets that it needs, or one let that no constraint needs (it must have a value).
  struct Question {
    Variant variant;                   // asks nothing else; its configuration is replaced at each question
    std::vector<Workload> workloads;   // one for each different answer
    std::vector<std::size_t> depends;  // the tunables that matter
    std::vector<std::int8_t> known;    // by combination of them: 0 not asked, 1 yes, -1 no; empty: too many
  };
  void add_question(const Variant&, const std::vector<Expression>& constraints,
                    const std::vector<std::string>& names, const std::vector<Workload>&);
  bool holds(Question&, const Configuration&) const;

  std::vector<Tunable> tunables_;
  Task task_;
  Facts facts_;
  mutable std::vector<Question> questions_;
};

}  // namespace cultivar
