// SPDX-License-Identifier: Apache-2.0
// Duels that end undecided one after another because the noise is too high for the gate's limit of device
// time, and what to do about it. No decision depends on it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/judge/outlook.hpp"

namespace cultivar {

// A value.
class UndecidedDuels {
 public:
  // A duel ended: with these options, after one or several parts.
  void ended(const Decision&, const GateOptions&);
  // Another gate.max_device_seconds, with the command that sets it, if the last kInARow duels ended undecided
  // by `limit_s` and a longer one would have decided an effect of kEffect; otherwise empty.
  std::string advice(double limit_s, const std::filesystem::path& run_folder) const;

  static constexpr std::size_t kInARow = 5;
  static constexpr double kEffect = kToldEffect;

 private:
  std::vector<double> needed_s_;  // of the newest, at most kInARow
};

}  // namespace cultivar
