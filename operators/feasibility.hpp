// SPDX-License-Identifier: Apache-2.0
// Decides which values of a source's tunables are feasible: they must satisfy the constraints for every
// workload of the search and every claimed shape of the task, because a kernel runs on all of them before it
// can become the best.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"
#include "evaluators/variant/variant.hpp"
#include "operators/tune/space.hpp"
#include "population/archive.hpp"

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

// The settings of one source's tunables as points of a tuner's space.
// Keeps a copy of the tunables. Not thread-safe.
class KnobPoints {
 public:
  explicit KnobPoints(std::vector<Tunable>);

  std::vector<Knob> knobs() const;  // in the order of the tunables
  // nullopt: a value is not on the grid (a hand-written variant may have one that its manifest does not
  // allow).
  std::optional<Point> of(IndividualId, const Archive&);
  std::optional<Point> of(const Configuration&) const;
  // The point of the individual whose kernel this one gave again; nullopt if there is none with this source.
  std::optional<Point> twin_of(IndividualId, const Archive&);
  Configuration at(std::span<const int> point) const;

 private:
  // A setting of the archive on the grid.
  struct Place {
    std::size_t knob = 0;  // one past the last: the source has no such tunable
    int value = 0;         // kNowhere: not one of its values
  };
  Place place_of(const std::pair<std::string, TunableValue>& setting) const;

  std::vector<Tunable> tunables_;
  std::vector<std::optional<Place>> places_;  // by number of the setting, as individuals need them
};

}  // namespace cultivar
