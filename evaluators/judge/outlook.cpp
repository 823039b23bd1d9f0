// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/outlook.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

double needed_seconds(const Decision& decision, const GateOptions& options, double effect) {
  constexpr double kWithoutBounds = 4.0;
  const double gain = std::log1p(effect);
  double factor = std::pow((decision.log_ratio - decision.lower) / (gain - std::log1p(options.min_gain)), 2);
  for (const WorkloadRatio& w : decision.workloads)
    factor = std::max(factor,
                      std::pow((w.log_ratio - w.lower) / (gain - std::log1p(-options.max_workload_loss)), 2));
  return decision.device_seconds * (std::isfinite(factor) ? factor : kWithoutBounds);
}

bool worth_another_part(const Decision& ended, const GateOptions& options) {
  return ended.verdict == Verdict::undecided && std::isfinite(ended.lower) &&
         ended.log_ratio > std::log1p(options.min_gain) &&
         needed_seconds(ended, options, std::expm1(ended.log_ratio)) <=
             kMostDuelParts * options.max_device_seconds;
}

void DuelOutlook::see(const Decision& so_far) {
  if (!std::isfinite(so_far.lower) || options_.min_gain > 0.5 * kToldEffect) return;
  needed_s_ = needed_seconds(so_far, options_, kToldEffect);
  const double seen = std::expm1(std::max(std::fabs(so_far.log_ratio), std::log1p(kToldEffect)));
  hopeless_ = needed_seconds(so_far, options_, seen) > kMostDuelParts * options_.max_device_seconds;
}

}  // namespace cultivar
