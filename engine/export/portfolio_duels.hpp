// SPDX-License-Identifier: Apache-2.0
// Decides a run's portfolio by measurements on the run's device: duels of candidates with the best, each on
// one workload, then the confirmation of those that are chosen and were never confirmed, timed on the
// workloads for which they are chosen.
#pragma once

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/export/portfolio.hpp"
#include "engine/search/evaluator.hpp"

namespace cultivar {

struct PortfolioSettings {
  int each = 3;                         // candidates of each workload
  std::size_t kernels = 4;              // at most, with the best
  std::set<IndividualId> without = {};  // never specialists
  // Limit on the duels' wall time; candidates that are left then stay undecided. The confirmations follow.
  double max_seconds = 1800.0;
  std::uint64_t seed = 0;
};

// What an earlier call decided, of use if the run's best kernel, the device and the settings are the same;
// and who is told after each further decision.
struct PortfolioProgress {
  KernelPortfolio so_far = {};
  std::function<void(const KernelPortfolio&)> keep = [](const KernelPortfolio&) {};
};

// What is to be done, before it begins. Kernels that win on one workload may bring a few duels more.
struct PortfolioWork {
  std::size_t duels = 0, confirmations = 0;              // the latter: at most
  double duel_seconds = 0.0, each_confirmation_s = 0.0;  // the former: all of them, at most; 0: unknown
};
PortfolioWork portfolio_work(const Record&, const Config&, const PortfolioSettings&,
                             const KernelPortfolio& so_far = {});

// Reads the record only. The probability that any kernel is called faster than the best on a workload where
// it gains no more than the gate's min_gain is at most the run's gate.alpha: all duels share it equally.
// `tell` is told what is being done, as text for people. An Error if the run has no best kernel, its device
// does not answer, or the best does not compile; once the evaluator was interrupted, `stop` must be set.
Expected<KernelPortfolio> decide_portfolio(const Record&, const Config&, Evaluator&, const PortfolioSettings&,
                                           const std::function<void(const std::string&)>& tell,
                                           const std::atomic<bool>& stop, PortfolioProgress = {});

// Whether kernels may be part of a portfolio: each is confirmed as a search confirms a new best, unless it
// was, and is as exact as the gate allows beside the best.
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
