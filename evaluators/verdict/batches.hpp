// SPDX-License-Identifier: Apache-2.0
// The gate's first test, for effects that are large against the noise: batches of runs in completely random
// order and the exact rank-sum test (../statistics/rank_sum.hpp).
//
// Short runs of each side before the duel (the pilots) say whether the sides differ plainly, and what a run
// of each costs. If they do, each workload gets a batch: few runs of the slow side among many of the fast
// one, as many as a complete separation needs at the level of this look. Up to four batches of the same size
// are pooled and looked at after each, with 1/4, 1/8, 1/16 and 1/16 of each level; the other half is left to
// the paired test, which follows if the batches do not decide. If the pilots promise nothing, there is no
// batch and the paired test has it all. The pilots decide only this; their times are in no test.
//
// Better: on every workload the challenger's times, multiplied by 1 + min_gain, are below the incumbent's.
// Then so is the geometric mean, and no workload loses: an intersection-union test, which needs no
// correction. Worse: on every workload they are above, or on one workload (at `guard` divided by the number
// of workloads) the loss of max_workload_loss is shown.
//
// Assumption: a run's time is the kernel's own, times a factor of noise that does not depend on which side
// runs. Drift, heat, bursts and dependent runs are permitted, because the order is random and the whole
// batch is drawn before it begins. Every run has new inputs, so that the sides differ in nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/statistics/rank_sum.hpp"
#include "evaluators/verdict/gate.hpp"

namespace cultivar {

// Not thread-safe; deterministic.
class Batches {
 public:
  // One pilot for each of the `workloads`, or none: then no batch is due.
  Batches(const GateOptions&, std::size_t workloads, std::span<const Pilot> pilots);

  bool due() const;     // the next order is a batch
  double left() const;  // share of each level that the paired test has: 1 or 1/2
  const BatchSize& size(std::size_t workload) const { return sizes_.at(workload); }  // of one batch
  // The times of one batch: each slot is a run of one side on one workload.
  void add(std::span<const Slot> order, std::span<const double> seconds);

  Verdict verdict() const { return verdict_; }
  std::optional<std::size_t> broken() const { return broken_; }  // the workload whose loss decided
  int batches() const { return looks_; }
  std::int64_t runs() const { return runs_; }

  // Of log time(incumbent) / time(challenger): the median over the pairs of a batch (Hodges and Lehmann), and
  // bounds at the levels of the last look. Infinite where the batch is too small for the level.
  double centre(std::size_t workload) const;
  double lower(std::size_t workload, double level) const;
  double upper(std::size_t workload, double level) const;

  // Pairs of the sides' runs by their turn, one row per pair with a log ratio for each workload: what the
  // paired test may learn the deviation from. It must not bet on them.
  std::vector<std::vector<double>> rows() const;

 private:
  struct Runs {                                 // on one workload, in logarithms of seconds
    std::vector<double> challenger, incumbent;  // of all batches
    std::vector<double> differences;            // of all pairs within a batch, ascending
  };
  double share() const;
  std::int64_t at_or_below(std::size_t workload, double log_ratio) const;
  std::int64_t at_or_above(std::size_t workload, double log_ratio) const;
  const Discordance& discordance(std::size_t workload, int batches) const;
  bool faster(double level, double log_ratio, int look, std::size_t workload) const;
  bool slower(double level, double log_ratio, int look, std::size_t workload) const;
  bool everywhere(bool faster, int look) const;
  void judge();

  GateOptions options_;
  std::vector<BatchSize> sizes_;  // empty: none is due
  std::vector<Runs> runs_by_workload_;
  std::int64_t runs_ = 0;
  int looks_ = 0;
  mutable std::map<std::array<int, 3>, Discordance> distributions_;  // by size and number of batches
  Verdict verdict_ = Verdict::undecided;
  std::optional<std::size_t> broken_;
};

}  // namespace cultivar
