// SPDX-License-Identifier: Apache-2.0
// What a suite's table says of one task, read from the record of its search.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "engine/suite/suite.hpp"

namespace cultivar {

// Ratios by workload: greater than 1 is faster than the rival, or than the peak.
struct SuiteRatios {
  double mean = 0.0;  // geometric
  double lowest = 0.0, highest = 0.0;
  std::string lowest_on;  // the workload
};

struct SuiteRival {
  std::string name;
  SuiteRatios speed;  // of the best kernel over the rival's, interleaved
  // Geometric means of the ends of the ratios' 95 % intervals; 0: a workload has none.
  double lower = 0.0, upper = 0.0;
  std::optional<double> error =
      {};  // the best kernel's rms error over the rival's, on the worst distribution
};

struct SuiteBest {
  IndividualId id = 0;
  double fitness = 0.0;
  double searched = 0.0;  // fitness during the search; 0: unknown
  std::string unit;
  bool confirmed = false;              // in a fresh process, beside the rivals; otherwise by the search alone
  double over_best_seed = 0.0;         // fitness over that of the best seed; 0: unknown
  std::string made_by;                 // "seed", "submit" or an operator's name
  std::string model;                   // empty: none
  std::string source_by;               // the same of the individual that introduced its source
  std::string seed;                    // the file of the seed that its lineage begins with
  bool installed_seed = false;         // that seed is one that Cultivar installs
  std::vector<IndividualRow> lineage;  // Record::paced_lineage
  std::string peak;                    // what `share` relates to: "copy", "matrix peak"; empty: unknown
  SuiteRatios share;
  std::vector<SuiteRival> rivals;
  SuiteRatios best_rival;       // the fastest rival of each workload; mean is 0 without rivals
  std::optional<double> error;  // rms error over that of the permitted roundings, on the worst distribution
  Evaluation evaluation;        // of which these figures are

  // Only its values may be evolved.
  bool given() const { return source_by == "seed" || source_by == "submit"; }
};

struct SuiteRow {
  std::string name, task, target, workloads;
  std::string state;    // "not begun", or as in Summary
  std::string trouble;  // why there is no best kernel, or what failed last
  double elapsed_s = 0.0, budget_s = 0.0;
  std::int64_t evaluations = 0, measured = 0, promotions = 0;
  std::optional<SuiteBest> best;
  std::vector<std::string> devices;
  std::vector<std::string> contenders;  // libraries and programs of its configuration, by name
  std::string judged_again;             // the command that does, to be run in the folder of the suite's runs
};

// `trouble`: of the last step of this task. `installed_tasks`: Installation::tasks.
SuiteRow row_of(const SuiteTask&, const std::filesystem::path& run_folder, const std::string& trouble,
                const std::filesystem::path& installed_tasks);

// "written by mutate with claude, from seed naive.cpp", "seed mine.cpp, values by tune", "hand-written seed
// vectorised.cpp, as given" of one that Cultivar installs.
std::string made_text(const SuiteBest&);
nlohmann::json to_json(const SuiteRow&);

}  // namespace cultivar
