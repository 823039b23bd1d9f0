// SPDX-License-Identifier: Apache-2.0
#include "population/duel_result.hpp"

#include <fmt/format.h>

#include <cmath>

namespace cultivar {

std::optional<DuelResult> result_of(const Decision& decision, IndividualId incumbent) {
  constexpr double kWide = 0.2, kImpossible = 100.0;  // logarithms
  constexpr int kManyPairs = 4, kManyRuns = 30;
  if (decision.blocks == 0 && decision.batches == 0) return std::nullopt;
  if (!(std::fabs(decision.log_ratio) < kImpossible)) return std::nullopt;
  if (decision.verdict == Verdict::undecided && decision.blocks < kManyPairs && decision.runs < kManyRuns &&
      !(decision.upper - decision.lower < kWide))
    return std::nullopt;
  DuelResult result{incumbent, decision.verdict, {decision.log_ratio, decision.lower, decision.upper}, {}};
  for (const WorkloadRatio& w : decision.workloads)
    result.workloads.push_back({w.log_ratio, w.lower, w.upper});
  return result;
}

std::string gain_words(const SpeedRatio& ratio) {
  const auto percent = [](double log_ratio) {
    return fmt::format("{:+.{}f}", 100.0 * std::expm1(log_ratio), std::fabs(log_ratio) < 1.0 ? 1 : 0);
  };
  const bool from = std::isfinite(ratio.lower), to = std::isfinite(ratio.upper);
  return fmt::format("{} % ({})", percent(ratio.log_ratio),
                     from && to ? fmt::format("{} to {} %", percent(ratio.lower), percent(ratio.upper))
                     : from     ? fmt::format("at least {} %", percent(ratio.lower))
                     : to       ? fmt::format("at most {} %", percent(ratio.upper))
                                : std::string("no bounds yet"));
}

std::string ratio_words(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return fmt::format("{:.{}f}x", ratio,
                     ratio >= 100                  ? 0
                     : ratio >= 10                 ? 1
                     : ratio >= 1.1 || ratio < 0.9 ? 2
                                                   : 3);
}

}  // namespace cultivar
