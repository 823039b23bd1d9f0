// SPDX-License-Identifier: Apache-2.0
// Times kernels of a run side by side on one shape that the search did not list, with the worker's bench:
// every timed output is checked.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/export/domain_dispatch.hpp"
#include "engine/export/portfolio_duels.hpp"

namespace cultivar {

// A kernel that may be chosen.
struct DispatchMember {
  IndividualId id = 0;
  Variant variant;
};

// Thread-safe, for a device worker of each thread. References must outlive it; `tell` is thread-safe; once
// the evaluator was interrupted, `stop` must be set.
class ShapeBench {
 public:
  ShapeBench(const Config& config, Evaluator& evaluator, PortfolioConfirmations& kernels,
             const std::function<void(const std::string&)>& tell, const std::atomic<bool>& stop,
             double most_seconds)
      : config_(config),
        evaluator_(evaluator),
        kernels_(kernels),
        tell_(tell),
        stop_(stop),
        most_seconds_(most_seconds) {}

  // `members` serve the shape; `beside`: with the run's contenders. `what` begins what is told. A member that
  // fails on the shape by its own fault is in `failed`; the shape is left out if no time counts.
  Expected<ShapeTimes> times(int worker, const Workload&, const std::vector<const DispatchMember*>& members,
                             bool beside, const std::string& what);

 private:
  using Side = std::pair<IndividualId, Compiled>;
  Expected<Evaluation> timed(int worker, const Workload&, const std::vector<Side>&, bool beside,
                             const std::string& what);
  void take(const Evaluation&, const std::vector<Side>&, ShapeTimes&) const;

  const Config& config_;
  Evaluator& evaluator_;
  PortfolioConfirmations& kernels_;
  const std::function<void(const std::string&)>& tell_;
  const std::atomic<bool>& stop_;
  const double most_seconds_;
};

}  // namespace cultivar
