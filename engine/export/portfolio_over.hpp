// SPDX-License-Identifier: Apache-2.0
// Decides a run's portfolio over a domain: measures kernels on shapes drawn in it, fits a dispatch table, and
// proves the table on shapes that are drawn afterwards.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/export/portfolio.hpp"
#include "engine/search/evaluator.hpp"

namespace cultivar {

struct OverSettings {
  std::string domain;                   // as parse_ranges reads it
  int each = 3;                         // candidates of each workload, by the record
  std::size_t members = 8;              // that are measured, at most, with the best
  std::size_t kernels = 4;              // that the table chooses among, at most, with the best
  std::set<IndividualId> with = {};     // members whatever the record says
  std::set<IndividualId> without = {};  // never members
  std::size_t shapes = 100;             // to learn from
  std::size_t proof = 100;              // to draw afterwards
  // Limit on the wall time of this call's measurements; at least half of it is for the proof. Confirmations
  // come on top.
  double budget_s = 1800.0;
  double most_bytes = 32.0 * 1073741824.0;  // of all tensors of a shape
  double most_seconds = 0.1;                // of a call of the fastest member
  std::uint64_t seed = 0;
};

// The best, `with`, then the most promising by the record.
std::vector<IndividualId> members_over(const Record&, IndividualId best, const OverSettings&);

// `log`: the file that holds what was measured (DomainLog); an equal call goes on from it. `tell` is
// told what is being done, with an estimate of the rest, as text for people. The table must lower the mean
// logarithm of the regret by at least kLeafPrice for each rule more, which is learnt from kLeastInLeaf shapes
// or more (rules from fewer made the choice worse on shapes drawn later), and a further kernel by
// kKernelPrice. From kLeastForForest measured shapes on it is fitted to them and to kFurtherShapes others
// (`further` of fit_table); with fewer each rule must lower it by kKernelPrice. An Error if the run has no
// best kernel, the domain is not understood or holds no shape that can be timed, or the device does not
// answer; once the evaluator was interrupted, `stop` must be set.
inline constexpr double kLeafPrice = 0.0005, kKernelPrice = 0.002;
inline constexpr std::size_t kFurtherShapes = 3000, kLeastForForest = 40;
inline constexpr std::size_t kLeastInLeaf = 4;
Expected<KernelPortfolio> decide_portfolio_over(const Record&, const Config&, Evaluator&, const OverSettings&,
                                                const std::filesystem::path& log,
                                                const std::function<void(const std::string&)>& tell,
                                                const std::atomic<bool>& stop);

}  // namespace cultivar
