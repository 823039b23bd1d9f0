// SPDX-License-Identifier: Apache-2.0
// Several kernels of a run behind one entry: the best of all, and specialists. Either each for the workloads
// on which the gate found it faster than the best, or as a table says that was learnt over a domain.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/export/domain_dispatch.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

// One duel of a kernel with the run's best, on one workload. Ratios are natural logarithms of the best's time
// over the kernel's.
struct SpecialistDuel {
  std::string workload;
  IndividualId kernel = 0;
  Verdict verdict = Verdict::undecided;
  double log_ratio = 0.0, lower = 0.0, upper = 0.0;  // lower at `alpha`
  int blocks = 0;
  std::int64_t runs = 0;
  double device_seconds = 0.0, alpha = 0.0;
};

// What goes where. The ratio is 0 for the best.
struct PortfolioEntry {
  std::string workload;
  IndividualId kernel = 0;
  double log_ratio = 0.0, lower = 0.0, upper = 0.0;
};

struct KernelPortfolio {
  IndividualId best = 0;
  std::vector<PortfolioEntry> entries;  // one for each workload, in the run's order
  std::vector<SpecialistDuel> duels;    // all that were made
  std::int64_t left = 0;                // duels for which there was no time
  // Confirmations that the record does not hold, and reasons why kernels were left out.
  std::map<IndividualId, Evaluation> confirmations;
  std::map<IndividualId, std::string> refused;
  std::string device;
  // Of `cultivar portfolio --over`: the table that decides, and its figures. The entries then say what it
  // does with the run's workloads, and there are no duels.
  std::optional<DomainDispatch> over = {};

  std::vector<IndividualId> kernels() const;  // the best, then the specialists by their first workload
  // What a bundle dispatches by: that of `over`, or one that is learnt from the entries, which it keeps.
  DispatchTable table(const Task&, const std::vector<Workload>&) const;
  const SpecialistDuel* duel_of(IndividualId kernel, const std::string& workload) const;  // nullptr: none
  // The geometric mean of the ratios over all workloads. The lower bound holds for all entries together.
  PortfolioEntry gain() const;
};

void to_json(nlohmann::json&, const KernelPortfolio&);
void from_json(const nlohmann::json&, KernelPortfolio&);  // throws nlohmann::json::exception

// From RunFolder::portfolio(). Fails with a remedy if there is none, or if it is of another best kernel than
// the record's.
Expected<KernelPortfolio> read_portfolio(const Record&);

// The kernels that may be specialists: for each workload, those `each` measured ones whose values exceed the
// best's by most; in the order in which to compare them: first the one with the greatest gain of each
// workload. Those in `without` do not count.
struct SpecialistCandidate {
  std::size_t workload = 0;  // index in the run's order
  IndividualId kernel = 0;
  double ratio = 1.0;  // of the recorded values, corrected for the device's pace
};
std::vector<SpecialistCandidate> specialist_candidates(const Record&, IndividualId best, int each,
                                                       const std::set<IndividualId>& without = {});
// Those of the kernels beside the best for which no duel is known yet, on every other workload where they
// were measured faster.
std::vector<SpecialistCandidate> further_candidates(const Record&, const KernelPortfolio&);

// Chooses the entries from the duels: at most `kernels` kernels with the best, none that is refused. One
// kernel after another is taken, always that which adds most to the geometric mean.
void choose_entries(KernelPortfolio&, const std::vector<std::string>& workloads, std::size_t kernels);

}  // namespace cultivar
