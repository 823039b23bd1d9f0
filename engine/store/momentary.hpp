// SPDX-License-Identifier: Apache-2.0
// What a search waits for, as of its last heartbeat; no decision depends on it.
#pragma once

#include <string>

#include "engine/store/summary.hpp"

namespace cultivar {

// A search without a usable worker.
struct Pause {
  double since = 0.0;     // seconds since 1970
  double next_try = 0.0;  // the same; in the past: it is trying now
  std::string why;        // the last fault
};

struct Momentary {
  // A search that ends when the work in progress is done.
  struct Closing {
    std::string why;
    double until = 0.0;  // at the latest, in seconds since 1970
  };
  std::int64_t challengers = 0;  // whose duel with the best has not ended
  std::optional<Pause> pause;
  std::vector<WorkersOf> workers;
  std::optional<Closing> closing = {};
  std::optional<DuelNow> duel = {};
  std::string step = {};  // what delays the search, as text; may be empty
};
std::string to_body(const Momentary&);
// Sets what `status` shows of it. Empty text: from a version that recorded none.
void set_momentary(Summary&, const std::string& text);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Waiting, for_s, next_try_s, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ending, why, left_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DuelNow, challenger, incumbent, progress)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkersOf, device, workers, measures)

// Duels and confirmations since an individual was last judged.
std::int64_t comparisons_since_judgement(const Record&);

}  // namespace cultivar
