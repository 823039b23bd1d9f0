// SPDX-License-Identifier: Apache-2.0
// Stage 9 on the device: runs the blocks that the gate asks for, checks every timed output, and reports the
// gate's decision.
#pragma once

#include "evaluators/judge/cascade.hpp"
#include "evaluators/verdict/gate.hpp"

namespace cultivar {

// Ends undecided, with its times, when CascadeSite::enough says so. A challenger that fails during the duel
// is `worse`; if the incumbent or the control fails, the decision is `undecided`.
GateReport run_duel(const CascadeSite&, const GateRequest&);

// "5 of at most 2000 pairs, 3.1 of 10 s", and why a duel goes on beyond its limit of device time. `needed_s`:
// what its noise requires for an effect of kToldEffect, if that is more than the limit;
// otherwise 0.
std::string duel_words(const std::string& doing, double spent_s, double limit_s, double needed_s = 0.0);

// What the noise that a duel has shown so far means for the device time that it needs, so that this can be
// said before the time is spent. None of it makes a duel better or worse.

inline constexpr double kToldEffect = 0.05;
inline constexpr int kMostDuelParts = 4;  // of one duel, each with max_device_seconds

// The device time in seconds in which a duel with this one's noise would decide an effect of that size:
// bounds narrow as the root of the number of blocks. At least four times its own if it has no bounds yet.
double needed_seconds(const Decision&, const GateOptions&, double effect);

// Of a duel that its limit of time left undecided: it shows a gain, and with that effect and its noise the
// parts that are allowed decide.
bool worth_another_part(const Decision& ended, const GateOptions&);

// A value. Knows nothing before there are bounds, and if min_gain is more than half of kToldEffect.
class DuelOutlook {
 public:
  explicit DuelOutlook(const GateOptions& options) : options_(options) {}

  void see(const Decision& so_far);
  // For an effect of kToldEffect, in seconds of device time, if that is more than the limit; otherwise 0.
  double needed_s() const { return needed_s_ > options_.max_device_seconds ? needed_s_ : 0.0; }
  // All of its parts together would decide neither the effect that it shows nor one of kToldEffect.
  bool hopeless() const { return hopeless_; }

 private:
  GateOptions options_;
  double needed_s_ = 0.0;
  bool hopeless_ = false;
};

}  // namespace cultivar
