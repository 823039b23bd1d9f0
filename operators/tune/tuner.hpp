// SPDX-License-Identifier: Apache-2.0
// Proposes the next configuration to try, based on those already tried.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "operators/tune/space.hpp"

namespace cultivar {

struct TunerOptions {
  int initial = 0;         // points of the space-filling start; 0: derived from the number of knobs
  int training_cap = 200;  // limit on the observations that a surrogate is trained on
  int candidates = 1000;   // points evaluated for one proposal
  int trees = 60;          // trees per forest
  // With more observations than the cap, one ranking of candidates serves several proposals; the more
  // observations, the more. Without, the surrogates are trained for each proposal, as for records of rules 3
  // and before.
  bool rankings = true;
  // Learn which points give a known kernel again or fail, and seldom propose them (Lessons). Without, as for
  // records of rules 8 and before.
  bool avoids_refusals = true;
};

// Bayesian optimization of a finite, constrained space; README.md describes the method. A proposal is a
// function of the seed, the sequence of observations and the pending points: no clock, no global state. Not
// thread-safe; `feasible` is called only from the calling thread and must be a pure function.
class Tuner {
 public:
  Tuner(Space space, std::uint64_t seed, TunerOptions options = {});
  ~Tuner();
  Tuner(Tuner&&) noexcept;
  Tuner& operator=(Tuner&&) noexcept;

  // cost > 0, lower is better; nullopt, or a cost that is not finite and positive: the point failed.
  // Observing a point again replaces its cost. Throws std::invalid_argument for a point that is not on the
  // grid. `learn` false: the observation is stored, but the surrogate is not refitted; use it for all but the
  // last observations of a long history, because each fit takes milliseconds. `twin`: the point observed
  // before whose kernel this one gave again, with that one's cost.
  void observe(const Point& point, std::optional<double> cost, bool learn = true,
               const std::optional<Point>& twin = std::nullopt);

  // A feasible point that is neither observed nor pending. nullopt if none is left or, in a space too large
  // to enumerate, if sampling found none.
  std::optional<Point> propose(std::span<const Point> pending = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cultivar
