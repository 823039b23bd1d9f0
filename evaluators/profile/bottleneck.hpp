// What a profile means: which of the device's limits a variant runs into, what its time goes to besides, and
// how that differs from its parent. Pure functions over a table of rules; a rule that lacks its facts says
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
  std::string kind;     // of the rule: "tensor_pipe", "exposed_latency", ...
  double weight = 0.0;  // 0 to 1: how much of the time it is thought to have to do with; findings come by it
  std::string words;
};

struct Report {
  std::string headline;    // time, and where on the roofline
  std::string limited_by;  // kind of the first finding; empty: nothing can be said
  std::vector<Finding> findings;
};
Report explain(const Profile&);

// Rules by kind, each about the whole profile (what takes most of the time in it).
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
// Only what differs by enough to matter; the time comes first, whatever it did. Workloads must be the same.
std::vector<Change> differences(const Profile& parent, const Profile& child);

// {"profile", "report", "against": {"variant", "median_us", "changes"}}
nlohmann::json report_json(const Profile&, const Profile* parent = nullptr);
// The same for people, indented by two.
std::string report_text(const Profile&, const Profile* parent = nullptr);

// The kernel that takes most of the time, as far as was counted or sampled; nullptr: there is none.
const KernelProfile* main_kernel(const Profile&);
// Shares of a kernel's samples by reason, most first: of the exposed ones if there are any (then `exposed`).
struct StallShare {
  std::string reason;
  double share = 0.0;
  bool exposed = false;
};
std::vector<StallShare> stall_shares(const KernelProfile&);

}  // namespace cultivar
