// SPDX-License-Identifier: Apache-2.0
#include "engine/search/changed_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "engine/config/duration.hpp"

namespace cultivar {
namespace {

// Sections, and keys of `evaluation`: none of them changes what was decided, and a replay does not read them,
// except the gate's, whose changes are recorded.
constexpr std::array<std::string_view, 5> kSections{"budget", "checkpoint", "gate", "notify", "metrics"};
constexpr std::array<std::string_view, 4> kThatChangeTimes{"launcher", "devices", "depth",
                                                           "workers_per_device"};
constexpr std::array<std::string_view, 4> kOthers{"compile_workers", "patience", "python",
                                                  "prepare_deadline"};

std::string keys_of_evaluation() {
  return fmt::format("{}, {}", fmt::join(kThatChangeTimes, ", "), fmt::join(kOthers, ", "));
}

// "launcher" of "evaluation.launcher.measure=[srun]"; empty: another section's.
std::string_view key_of_evaluation(std::string_view text) {
  constexpr std::string_view section = "evaluation.";
  if (!text.starts_with(section)) return {};
  text.remove_prefix(section.size());
  return text.substr(0, text.find_first_of(".="));
}

bool changes_times(std::string_view text) {
  return std::ranges::find(kThatChangeTimes, key_of_evaluation(text)) != kThatChangeTimes.end();
}

bool changeable(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  if (std::ranges::find(kSections, section) != kSections.end()) return true;
  return changes_times(key) || std::ranges::find(kOthers, key_of_evaluation(key)) != kOthers.end();
}

}  // namespace

std::string changeable_settings() {
  return fmt::format("{}; and evaluation.KEY=VALUE: {}", fmt::join(kSections, ", "), keys_of_evaluation());
}

bool changes_evaluation(const std::string& override) {
  return !key_of_evaluation(override).empty() &&
         changeable(std::string_view(override).substr(0, override.find('=')));
}

void require_changeable(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string_view key = std::string_view(text).substr(0, text.find('='));
    if (changeable(key)) continue;
    if (key == "evaluation.cores")
      throw InputError("--set " + text +
                       ": another number of cores is another device, whose times cannot be compared with "
                       "the recorded ones. Begin a new run with it, and `cultivar submit` the best kernel to "
                       "that run");
    throw InputError(
        fmt::format("--set {}: a resumed search can change only its {}, and of its evaluation {}; begin a "
                    "new run for other settings",
                    text, fmt::join(kSections, ", "), keys_of_evaluation()));
  }
}

void require_larger_budgets(const Config& config, const std::vector<std::string>& overrides,
                            const Summary& so_far) {
  const std::map<std::string, double> limits{
      {"wall", config.budget.wall_s},
      {"evaluations", static_cast<double>(config.budget.evaluations)},
      {"device_hours", config.budget.device_s / 3600.0},
      {"plateau", config.budget.plateau_s},
      {"usd", config.budget.models.usd.value_or(0.0)},
      {"tokens", static_cast<double>(config.budget.models.tokens.value_or(0))}};
  for (const std::string& text : overrides)
    for (const auto& [kind, limit] : limits) {
      const auto use = so_far.budget.find(kind);
      if (!text.starts_with("budget." + kind + "=") || use == so_far.budget.end() || limit <= 0.0 ||
          use->second.used < limit)
        continue;
      const double used = use->second.used;
      throw InputError(fmt::format(
          "--set {}: {} {} already spent; set a larger budget", text,
          kind == "wall" || kind == "plateau" ? duration(std::floor(used)) : fmt::format("{:.6g}", used),
          kind == "evaluations" || kind == "tokens" || kind == "device_hours" ? "are" : "is"));
    }
}

std::string changed_settings(const std::vector<std::string>& overrides) {
  std::string changed;
  for (const std::string& text : overrides)
    if (text.starts_with("evaluation.")) changed += (changed.empty() ? "" : ", ") + text;
  if (changed.empty()) return {};
  const bool other_times = std::ranges::any_of(overrides, changes_times);
  return " with other settings: " + changed +
         (other_times ? ". Earlier times were measured with the former ones: the best kernel is measured "
                        "again first, and new variants are compared at its current pace"
                      : "");
}

}  // namespace cultivar
