// SPDX-License-Identifier: Apache-2.0
// The hardware counters that a profile collects, under our own names: chips differ in their names and
// availability.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/devices/instruments.hpp"
#include "evaluators/profile/bottleneck.hpp"

namespace cultivar {

struct Counter {
  std::string_view key;     // name in reports, JSON and rules
  std::string_view metric;  // CUPTI's name
  bool quick = false;       // also in the quick set, which one pass collects
  bool everywhere = true;   // available on every chip since Ampere
  std::string_view about;   // description with unit
};
std::span<const Counter> counters();

CounterValues by_key(const std::vector<std::string>& metrics, const std::vector<double>& values);

// How profiles of the cuda target are explained. A new rule is one function and one line in a table.
const ProfileWords& cuda_profile_words();

}  // namespace cultivar
