// SPDX-License-Identifier: Apache-2.0
// The speed of one individual over another one, as far as duels say: of the two, or of each with others.
#pragma once

#include <optional>
#include <vector>

#include "population/archive.hpp"

namespace cultivar {

struct SpeedByDuels {
  SpeedRatio all;
  std::vector<SpeedRatio> workloads;  // in the order of the search's workloads; empty: a duel does not tell
};

// Of the first over the second. nullopt: no duels connect them. The errors of several duels are independent,
// so the distances of their bounds add up as squares.
std::optional<SpeedByDuels> speed_by_duels(const Archive&, IndividualId, IndividualId);

}  // namespace cultivar
