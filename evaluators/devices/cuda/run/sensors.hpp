// SPDX-License-Identifier: Apache-2.0
// Clock, temperature, power and throttle reasons, from NVML, and what they say of a sample. Without the
// library every reading is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "evaluators/devices/cuda/run/driver_types.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar::cuda {

struct Reading {
  double clock_mhz = 0.0, temperature_c = 0.0, power_w = 0.0;  // 0: unknown
  std::uint64_t throttle = 0;                                  // NVML's bits
};

class Sensors {  // not thread-safe
 public:
  // `bus_id` comes from cuDeviceGetPCIBusId, because NVML numbers devices differently.
  explicit Sensors(const std::string& bus_id);

  Reading read() const;
  double default_clock_mhz() const { return default_clock_mhz_; }  // of the multiprocessors; 0 if unknown
  const std::string& obstacle() const { return obstacle_; }        // empty if NVML works

 private:
  NvmlDevice device_ = nullptr;
  double default_clock_mhz_ = 0.0;
  std::string obstacle_;
  int (*clock_)(NvmlDevice, int, unsigned*) = nullptr;
  int (*temperature_)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power_)(NvmlDevice, unsigned*) = nullptr;
  int (*reasons_)(NvmlDevice, unsigned long long*) = nullptr;
};

// True if the power limit is the only reason that slows the clock.
bool power_limited(std::uint64_t reasons);
// For example "software power cap, thermal slowdown"; empty if nothing slows the clock.
std::string throttle_words(std::uint64_t reasons);

// Adds a reading to a sample, and says so if the clock was too low for it to count. Call it after the turn:
// the sensors take milliseconds to respond, during which another worker's kernels may run.
void judge_clock(Sample&, const Sensors&, double default_clock_mhz);
// The median clock of the multiprocessors between two sets of stamps, which follow each other: a time in ns
// and a count of cycles for each. 0: it was too short to tell.
double stamped_clock_mhz(const std::uint64_t* stamps, std::size_t multiprocessors);

}  // namespace cultivar::cuda
