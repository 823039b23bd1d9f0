// SPDX-License-Identifier: Apache-2.0
#include "engine/search/undecided_duels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

constexpr double kMuchMore = 1.5;  // times the limit: less shows small effects, not noise
constexpr double kTooMuch = 100.0;

// The next of 1, 1.5, 2, 3, 4, 6, 8, 10, ...
double rounded_up(double seconds) {
  const double ten = std::pow(10.0, std::floor(std::log10(seconds)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0})
    if (seconds <= step * ten * (1.0 + 1e-9)) return step * ten;
  return 10.0 * ten;
}

}  // namespace

void UndecidedDuels::ended(const Decision& decision, const GateOptions& options) {
  // Also one that ended early, since its noise would have taken far more.
  const bool by_limit = decision.verdict == Verdict::undecided &&
                        (decision.device_seconds >= options.max_device_seconds ||
                         needed_seconds(decision, options, kEffect) > options.max_device_seconds);
  if (!by_limit || options.min_gain > 0.5 * kEffect) {
    needed_s_.clear();
    return;
  }
  needed_s_.push_back(needed_seconds(decision, options, kEffect));
  if (needed_s_.size() > kInARow) needed_s_.erase(needed_s_.begin());
}

std::string UndecidedDuels::advice(double limit_s, const std::filesystem::path& run_folder) const {
  if (needed_s_.size() < kInARow) return {};
  const double needed = median(needed_s_);
  if (needed < kMuchMore * limit_s) return {};
  const std::string begun = fmt::format(
      "the last {} duels ended undecided within gate.max_device_seconds ({:g} s); at their noise, an effect "
      "of "
      "{:g} % "
      "needs about {:.2g} s",
      kInARow, limit_s, 100.0 * kEffect, needed);
  if (needed > kTooMuch * limit_s)
    return begun + ": look for other work on this machine or device, or choose workloads that take longer";
  return fmt::format("{}: stop the search, then `cultivar resume {} --set gate.max_device_seconds={:g}s`",
                     begun, shell_word(run_folder.string()), rounded_up(needed));
}

}  // namespace cultivar
