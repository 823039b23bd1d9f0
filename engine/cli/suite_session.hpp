// SPDX-License-Identifier: Apache-2.0
// Shared by `suite` and `optimise`: the searches of a suite one after another or, with a ranking, always the
// one that is expected to gain most; the table, and what is printed.
#pragma once

#include <string>
#include <vector>

namespace cultivar {

struct SuiteCall {
  std::string file, run_dir;  // run_dir: empty: runs/ and the suite's name
  std::vector<std::string> overrides, only;
  double turn_s = 0.0;  // 0: no turns; with a ranking kUsualSlice
  bool as_json = false, verbose = false, only_check = false, only_table = false, trust = false;
  std::string again;  // the command that resumes, for people
};
inline constexpr double kUsualSlice = 300.0;  // seconds of search, after which the ranking is made anew

// The suite file and the folder of the runs of a campaign's folder; throws if it is none.
std::string campaign_file(const std::string& folder);
std::string campaign_runs(const std::string& folder);

// Returns the command's exit code.
int suite_session(const SuiteCall&);

}  // namespace cultivar
