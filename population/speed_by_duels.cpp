// SPDX-License-Identifier: Apache-2.0
#include "population/speed_by_duels.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cultivar {

namespace {

// It, the incumbent of its duel, the incumbent of that one's duel, and so on. The count is a bound for
// records in which an incumbent was not settled before.
std::vector<IndividualId> incumbents_of(const Archive& archive, IndividualId id) {
  std::vector<IndividualId> all{id};
  while (static_cast<std::int64_t>(all.size()) <= archive.size())
    if (const DuelResult* const duel = archive.duel(all.back()))
      all.push_back(duel->incumbent);
    else
      break;
  return all;
}

SpeedRatio product(const SpeedRatio& a, const SpeedRatio& b) {
  const double log_ratio = a.log_ratio + b.log_ratio;
  return {log_ratio, log_ratio - std::hypot(a.log_ratio - a.lower, b.log_ratio - b.lower),
          log_ratio + std::hypot(a.upper - a.log_ratio, b.upper - b.log_ratio)};
}

SpeedRatio inverse(const SpeedRatio& ratio) {
  return {-ratio.log_ratio, -ratio.upper, -ratio.lower};
}

}  // namespace

std::optional<SpeedByDuels> speed_by_duels(const Archive& archive, IndividualId first, IndividualId second) {
  const std::vector<IndividualId> ours = incumbents_of(archive, first),
                                  theirs = incumbents_of(archive, second);
  const auto common = std::ranges::find_first_of(ours, theirs);
  if (first == second || common == ours.end()) return std::nullopt;
  std::optional<SpeedByDuels> speed;
  const auto follow = [&](IndividualId challenger, bool inverted) {
    const DuelResult& duel = *archive.duel(challenger);
    const auto step = [&](const SpeedRatio& ratio) { return inverted ? inverse(ratio) : ratio; };
    if (!speed) {
      speed.emplace();
      speed->all = step(duel.all);
      std::ranges::transform(duel.workloads, std::back_inserter(speed->workloads), step);
      return;
    }
    speed->all = product(speed->all, step(duel.all));
    if (speed->workloads.size() != duel.workloads.size()) return speed->workloads.clear();
    for (std::size_t w = 0; w < duel.workloads.size(); ++w)
      speed->workloads[w] = product(speed->workloads[w], step(duel.workloads[w]));
  };
  for (auto id = ours.begin(); id != common; ++id) follow(*id, false);
  for (auto id = theirs.begin(); *id != *common; ++id) follow(*id, true);
  return speed;
}

}  // namespace cultivar
