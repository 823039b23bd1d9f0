// Which hardware counters a profile asks for, by names of our own: chips differ in what they call and have.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct Counter {
  std::string_view key;     // in reports, JSON and rules
  std::string_view metric;  // as CUPTI calls it
  bool quick = false;       // also of the quick set, which one pass collects
  bool everywhere = true;   // on every chip since Ampere
  std::string_view about;   // with its unit
};
std::span<const Counter> counters();
std::vector<std::string> metric_names(bool full);

// Shares of warps' time by reason: a counter `stall_<reason>` of the full set.
struct StallReasonWords {
  std::string_view reason;
  std::string_view about;   // what the warp waits for
  std::string_view remedy;  // what usually helps
};
// Unknown reasons come back with their own name and nothing else.
StallReasonWords words_of_stall(std::string_view reason);

using CounterValues = std::map<std::string, double, std::less<>>;  // by key
CounterValues by_key(const std::vector<std::string>& metrics, const std::vector<double>& values);

}  // namespace cultivar
