// SPDX-License-Identifier: Apache-2.0
// The facts found about a variant on one workload, without interpretation. Plain values; bottleneck.hpp
// interprets them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "evaluators/devices/ceilings.hpp"
#include "evaluators/devices/instruments.hpp"

namespace cultivar {

// How many blocks of a kernel fit on a multiprocessor at once, and which resource limits that number.
enum class OccupancyLimit { warps, blocks, registers, shared_memory, does_not_fit };
std::string_view words_of(OccupancyLimit);  // "shared memory"

struct Occupancy {
  int blocks = 0;                                       // resident per multiprocessor
  int warps = 0;                                        // in these blocks
  double share = 0.0;                                   // share of the warps that a multiprocessor can hold
  OccupancyLimit limit = OccupancyLimit::does_not_fit;  // the resource that is exhausted first
  // The number of blocks that would fit with only this limit.
  int blocks_by_warps = 0, blocks_by_count = 0, blocks_by_registers = 0, blocks_by_shared_memory = 0;
};

struct StallCount {
  std::uint64_t samples = 0;  // samples of warps stalled for this reason
  std::uint64_t exposed = 0;  // of these, samples while the scheduler had nothing to issue
};
using Stalls = std::map<std::string, StallCount, std::less<>>;  // by reason

struct LineStalls {
  int line = 0;      // line of the variant's source; 0: code that is not the variant's or has no line
  std::string text;  // text of that line, trimmed
  std::uint64_t samples = 0;
  Stalls stalls;
  std::string file = {};  // the header with that line; empty: the main file

  // "12" or "tile.cuh:12".
  std::string place() const { return (file.empty() ? "" : file + ":") + std::to_string(line); }
};

struct KernelProfile {  // one launch of the plan
  std::string name;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  int registers = 0, stack_bytes = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
  bool cooperative = false;
  Occupancy occupancy;
  double waves = 0.0;         // 0 if unknown
  CounterValues counters;     // empty if not counted
  std::uint64_t samples = 0;  // 0 if not sampled
  Stalls stalls;
  std::vector<LineStalls> lines;  // lines with the most samples other than `selected`, largest first
};

struct CodeLine {
  int line = 0;  // of the source; 0: unknown
  std::string text;
};

// An innermost loop of a cpu variant's machine code.
struct HotLoop {
  std::string function, file;         // file: the header with its lines; empty: the main file
  int first_line = 0, last_line = 0;  // of the source; 0: unknown
  int instructions = 0, loads = 0, stores = 0;
  int vectors = 0, widest_bits = 0;     // instructions on more than one element, and their widest register
  int scalars = 0;                      // floating-point instructions on one element
  int fused = 0;                        // fused multiply-adds, of vectors or of one element
  int depth = 0;                        // how many loops of the same function are around it
  std::vector<std::string> calls = {};  // functions that it calls
  std::vector<CodeLine> code = {};      // its first instructions
};

struct Profile {
  std::string target, device, variant, name, workload;
  std::string set;  // "quick", "full"
  // Timed separately from profiling, as all timed runs are.
  double median_us = 0.0, clock_mhz = 0.0, temperature_c = 0.0, power_w = 0.0;
  std::string throttle;  // what slowed the clock
  double value = 0.0;
  std::string unit;
  // The minimum work of the workload, and the time it takes at the device's peak rates.
  double flops = 0.0, bytes = 0.0, flops_us = 0.0, bytes_us = 0.0;  // the last two: time at peak rates
  std::map<std::string, double> resources;                          // of the machine code
  std::vector<KernelProfile> kernels;                               // cuda: in the order of the plan
  std::vector<HotLoop> loops = {};                                  // cpu
  Traffic traffic = {};                                             // cpu
  int passes = 0;
  std::string replay;  // how several passes were made, and why the usual way failed
  std::uint64_t dropped_samples = 0;
  std::vector<std::string> missing;  // what could not be determined, why, and the remedy

  double floor_us() const { return flops_us > bytes_us ? flops_us : bytes_us; }
};

void to_json(nlohmann::json&, const Profile&);
void from_json(const nlohmann::json&, Profile&);  // throws nlohmann::json::exception

// Combines parts about the same variant and workload that separate processes have found.
void merge(Profile& into, const Profile& part);

}  // namespace cultivar
