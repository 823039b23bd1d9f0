// Proposes the next configuration to try, from those already tried.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "operators/tune/space.hpp"

namespace cultivar {

struct TunerOptions {
  int initial = 0;         // points of the space-filling start; 0: chosen from the number of knobs
  int training_cap = 200;  // observations that a surrogate is trained on
  int candidates = 1000;   // points whose acquisition is computed for one proposal
  int trees = 60;          // of a forest
};

// Bayesian optimisation of a finite, constrained space; the method is described in README.md. A proposal is a
// function of the seed, the sequence of observations and the pending points: no clock, no global state. Not
// thread-safe; `feasible` is called from the calling thread only and must be a pure function.
class Tuner {
 public:
  Tuner(Space space, std::uint64_t seed, TunerOptions options = {});
  ~Tuner();
  Tuner(Tuner&&) noexcept;
  Tuner& operator=(Tuner&&) noexcept;

  // cost > 0, less is better; nothing, or a cost that is not finite and positive: the point failed. A point
  // observed again replaces its former cost. Throws std::invalid_argument for a point off the grid.
  // `learn` false: it is remembered, but the surrogate is not improved now; for all but the last observations
  // of a long history, which would otherwise take milliseconds each.
  void observe(const Point& point, std::optional<double> cost, bool learn = true);

  // A feasible point that was neither observed nor is pending. Nothing when none is left; in a space too
  // large to enumerate, when none could be found by sampling.
  std::optional<Point> propose(std::span<const Point> pending = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cultivar
