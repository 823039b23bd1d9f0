#include "engine/search/changed_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "engine/config/duration.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {
namespace {

// Sections, and keys of `evaluation`: none of them changes what was decided, and a replay does not read them,
// except the gate's, whose changes are recorded.
constexpr std::array<std::string_view, 5> kSections{"budget", "checkpoint", "gate", "notify", "metrics"};
constexpr std::array<std::string_view, 8> kOfEvaluation{
    "launcher",        "devices",  "depth",  "workers_per_device",
    "compile_workers", "patience", "python", "prepare_deadline"};

bool changeable(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  if (std::ranges::find(kSections, section) != kSections.end()) return true;
  if (section != "evaluation" || section == key) return false;
  key.remove_prefix(section.size() + 1);
  return std::ranges::find(kOfEvaluation, key.substr(0, key.find('.'))) != kOfEvaluation.end();
}

}  // namespace

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
                    text, fmt::join(kSections, ", "), fmt::join(kOfEvaluation, ", ")));
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
          kind == "wall" || kind == "plateau" ? duration_text(std::floor(used)) : fmt::format("{:.6g}", used),
          kind == "evaluations" || kind == "tokens" || kind == "device_hours" ? "are" : "is"));
    }
}

std::string changed_settings(const std::vector<std::string>& overrides) {
  std::string changed;
  for (const std::string& text : overrides)
    if (text.starts_with("evaluation.")) changed += (changed.empty() ? "" : ", ") + text;
  if (changed.empty()) return {};
  return fmt::format(
      " with other settings: {}. Earlier times were measured with the former ones: the best kernel is "
      "measured again first, and new variants are compared at its current pace",
      changed);
}

}  // namespace cultivar
