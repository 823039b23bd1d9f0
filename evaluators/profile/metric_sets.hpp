// SPDX-License-Identifier: Apache-2.0
// The hardware counters that a profile collects, under our own names: chips differ in their names and
// availability.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct Counter {
  std::string_view key;     // name in reports, JSON and rules
  std::string_view metric;  // CUPTI's name
  bool quick = false;       // also in the quick set, which one pass collects
  bool everywhere = true;   // available on every chip since Ampere
  std::string_view about;   // description with unit
};
std::span<const Counter> counters();
std::vector<std::string> metric_names(bool full);

// Describes the reason of a stall; its share of warps' time is the counter `stall_<reason>` of the full set.
struct StallReasonWords {
  std::string_view reason;
  std::string_view about;   // what the warp waits for
  std::string_view remedy;  // what usually helps
};
// For an unknown reason, `about` is its name and `remedy` is empty.
StallReasonWords words_of_stall(std::string_view reason);

using CounterValues = std::map<std::string, double, std::less<>>;  // by key
CounterValues by_key(const std::vector<std::string>& metrics, const std::vector<double>& values);

}  // namespace cultivar
