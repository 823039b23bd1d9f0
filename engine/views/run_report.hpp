// SPDX-License-Identifier: Apache-2.0
// A summary of a run's record for reports: which kernels were evaluated when, which were the best, and the
// results of each operator.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/interventions.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

struct JudgedKernel {
  IndividualId id = 0;
  std::string op;
  double elapsed_s = 0.0;  // of search time
  double fitness = 0.0;    // from its duel (Standings), or scaled to the initial pace; 0: rejected
  bool refused = false;    // measured, but failed confirmation
};

struct BestStep {
  IndividualId id = 0;
  std::int64_t evaluations = 0;  // number of kernels evaluated by then
  double elapsed_s = 0.0, fitness = 0.0;
};

struct Yield {
  std::int64_t proposed = 0, measured = 0, rejected = 0, challengers = 0, promoted = 0;
  double best = 0.0, device_s = 0.0;
  double gain = 0.0;  // of its promotions over the best before each, in their duels: the product, minus 1
  std::int64_t calls = 0, tokens = 0;
  double usd = 0.0;
};

struct RunReport {
  Summary summary;
  std::vector<JudgedKernel> judged;                                   // in order
  std::vector<BestStep> steps;                                        // in order
  std::map<std::pair<std::string, std::string>, Yield> yields;        // by operator and model
  using Reasons = std::vector<std::pair<std::string, std::int64_t>>;  // "stage: reason", most frequent first
  Reasons rejections;
  Reasons unconfirmed;                       // kernels that failed their confirmation
  std::map<std::string, double> contenders;  // the fitness of each contender, timed together with the best
  double device_s = 0.0;                     // checks and measurements, summed over all workers
  std::vector<InterventionRow> interventions;
  bool paced = false;         // whether fitness was scaled to another pace
  std::int64_t sessions = 0;  // number of times the search was started or resumed
};

std::map<std::pair<std::string, std::string>, Yield> yields_of(const Record&,
                                                               const RunIndex&);  // by operator and model
RunReport tell(const Record&);  // reads the whole record once
RunReport tell(const Record&, const RunIndex&);
nlohmann::json intervention_facts(const std::vector<InterventionRow>&);
// The format of `report --json`.
nlohmann::json report_facts(const RunReport&, const std::filesystem::path& folder,
                            const std::vector<std::string>& files);

}  // namespace cultivar
