// SPDX-License-Identifier: Apache-2.0
// Interprets a profile: which of the device's limits a variant reaches, where the rest of its time goes, and
// how that differs from its parent. Pure functions over a table of rules; a rule without its facts reports
// nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/profile/profile.hpp"

namespace cultivar {

struct Finding {
  std::string kind;     // name of the rule: "tensor_pipe", "exposed_latency", ...
  double weight = 0.0;  // 0 to 1: estimated share of the time it concerns; findings are sorted by it
  std::string words;
};

struct Report {
  std::string headline;    // time and position on the roofline
  std::string limited_by;  // kind of the first finding; empty if there is none
  std::vector<Finding> findings;
};
Report explain(const Profile&);

// Rules by kind, each about the whole profile (mainly the kernel that takes most of the time).
struct Rule {
  std::string_view kind;
  std::optional<Finding> (*apply)(const Profile&);
};
std::span<const Rule> rules();

struct Change {
  std::string what;  // "median_us", a counter's key, "stall_long_scoreboard", "registers", ...
  double before = 0.0, after = 0.0;
  std::string words;
};
// Only differences that matter; the time always comes first. The workloads must be the same.
std::vector<Change> differences(const Profile& parent, const Profile& child);

// {"profile", "report", "against": {"variant", "median_us", "changes"}}
nlohmann::json report_json(const Profile&, const Profile* parent = nullptr);
// The same as text for people, indented by two spaces.
std::string report_text(const Profile&, const Profile* parent = nullptr);

std::string time_words(double us);  // "1.25 ms"

// The kernel that takes most of the time, according to counters or samples; nullptr if there is none.
const KernelProfile* main_kernel(const Profile&);
// The stall reasons of a kernel as shares of its samples, largest first; of the exposed samples if there are
// any (`exposed` is then true).
struct StallShare {
  std::string reason;
  double share = 0.0;
  bool exposed = false;
};
std::vector<StallShare> stall_shares(const KernelProfile&);

}  // namespace cultivar
