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
inline constexpr double least_noted_share = 0.03;  // of the time, that a rule reports
// Rules that hold for every device.
std::optional<Finding> near_the_roof(const Profile&);
std::optional<Finding> several_kernels(const Profile&);
std::optional<Finding> slowed_clock(const Profile&);

struct CounterWords {
  std::string_view key;    // in reports, JSON and rules
  std::string_view about;  // description with unit
};
// Describes the reason of a stall; its share of warps' time is the counter `stall_<reason>`.
struct StallReasonWords {
  std::string_view reason;
  std::string_view about;   // what the warp waits for
  std::string_view remedy;  // what usually helps; empty: unknown
};
// How profiles of one kind of device are explained: a column of its row.
struct ProfileWords {
  std::span<const Rule> rules;
  std::span<const CounterWords> counters = {};
  std::span<const StallReasonWords> stalls = {};

  StallReasonWords of_stall(std::string_view reason) const;  // unknown: its name
};
const ProfileWords& words_for(const Profile&);  // of its target

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
