// What a variant does on one workload, as far as it could be found out: facts, without judgement. Plain
// values; explanations are in bottleneck.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "evaluators/profile/line_table.hpp"
#include "evaluators/profile/metric_sets.hpp"
#include "evaluators/profile/occupancy.hpp"

namespace cultivar {

struct StallCount {
  std::uint64_t samples = 0;  // of warps that waited so
  std::uint64_t exposed = 0;  // of these, while their scheduler had nothing to issue
};
using Stalls = std::map<std::string, StallCount, std::less<>>;  // by reason

struct LineStalls {
  int line = 0;      // of the variant's source; 0: of code that is not its own or that has no line
  std::string text;  // of that line, trimmed
  std::uint64_t samples = 0;
  Stalls stalls;
  std::string file = {};  // which of its headers the line is in; empty: the main file

  // "12" or "tile.cuh:12".
  std::string place() const { return (file.empty() ? "" : file + ":") + std::to_string(line); }
};

struct KernelProfile {  // one launch of the plan
  std::string name;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  int registers = 0, stack_bytes = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
  bool cooperative = false;
  Occupancy occupancy;
  double waves = 0.0;         // 0: not known
  CounterValues counters;     // empty: not counted
  std::uint64_t samples = 0;  // 0: not sampled
  Stalls stalls;
  std::vector<LineStalls> lines;  // those with most samples that are not merely `selected`, most first
};

struct Profile {
  std::string target, device, variant, kernel_name, workload;
  std::string set;  // "quick", "full"
  // Timed apart from the profiling, as everything is timed.
  double median_us = 0.0, clock_mhz = 0.0, temperature_c = 0.0, power_w = 0.0;
  std::string throttle;  // what slowed the clock, in words
  double value = 0.0;
  std::string unit;
  // The least that the workload asks for, and the most that this device was seen to do.
  double flops = 0.0, bytes = 0.0, flops_us = 0.0, bytes_us = 0.0;  // the last two: at those rates
  std::map<std::string, double> resources;                          // of the machine code
  std::vector<KernelProfile> kernels;                               // cuda: in the order of the plan
  int passes = 0;
  std::string replay;  // how several passes were made, and why not the usual way
  std::uint64_t dropped_samples = 0;
  std::vector<std::string> missing;  // what could not be found out, why, and what would help

  double floor_us() const { return flops_us > bytes_us ? flops_us : bytes_us; }
};

void to_json(nlohmann::json&, const Profile&);
void from_json(const nlohmann::json&, Profile&);  // throws nlohmann::json::exception

// What parts found out about the same variant and workload, each by its own process.
void merge(Profile& into, const Profile& part);

}  // namespace cultivar
