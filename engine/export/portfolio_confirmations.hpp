// SPDX-License-Identifier: Apache-2.0
// Whether kernels may be part of a portfolio: each is confirmed as a search confirms a new best, unless it
// was, and is as exact as the gate allows beside the best.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/export/portfolio.hpp"
#include "engine/search/evaluator.hpp"

namespace cultivar {

// References must outlive it. `tell` is told what is being done, as text for people; once the evaluator was
// interrupted, `stop` must be set.
class PortfolioConfirmations {
 public:
  PortfolioConfirmations(const Record& record, const Config& config, Evaluator& evaluator,
                         const std::function<void(const std::string&)>& tell, const std::atomic<bool>& stop)
      : record_(record), config_(config), evaluator_(evaluator), tell_(tell), stop_(stop) {}

  // Of a kernel other than the best, timed on these workloads. Adds it to the portfolio's confirmations if
  // the record has none, and to `refused` if it failed or is less exact. True: a confirmation was added.
  Expected<bool> confirm(KernelPortfolio&, IndividualId, const std::vector<Workload>& timed);

  // The kernel with binaries for these workloads, or the rejection that says why not.
  tl::expected<Compiled, Evaluation> compiled(IndividualId, const std::vector<Workload>&, Breadth);
  // The contenders of the run with binaries for these workloads; those that do not compile are left out.
  std::vector<std::pair<std::string, Compiled>> contenders(const std::vector<Workload>&, Breadth);

  static tl::unexpected<Error> interruption() {
    return failure(ErrorKind::interrupted, "portfolio",
                   "interrupted; the same command goes on from what was decided");
  }
  static constexpr int kAttempts = 3;  // of what met a fault of the host

 private:
  Expected<Evaluation> confirmed_now(IndividualId, const std::vector<Workload>& timed);

  const Record& record_;
  const Config& config_;
  Evaluator& evaluator_;
  const std::function<void(const std::string&)>& tell_;
  const std::atomic<bool>& stop_;
};

}  // namespace cultivar
