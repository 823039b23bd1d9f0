// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/sensors.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {
namespace {

// A sample whose clock is below this fraction of the default clock does not count (evaluation.md).
constexpr double kLeastClock = 0.75;
// The fraction if only the power limit slows the card: the better a kernel loads it, the more it does.
constexpr double kLeastClockAtPowerLimit = 0.6;
constexpr double kShortestClockedNs = 50e3;

}  // namespace

Sensors::Sensors(const std::string& bus_id) {
  void* const library =
      open_library({"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"}, &obstacle_);
  if (library == nullptr) return;
  obstacle_.clear();
  const auto find = [&](auto& function, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (function == nullptr)
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
  int (*init)() = nullptr;
  int (*by_bus)(const char*, NvmlDevice*) = nullptr;
  int (*default_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  find(init, {"nvmlInit_v2"});
  find(by_bus, {"nvmlDeviceGetHandleByPciBusId_v2"});
  find(default_clock, {"nvmlDeviceGetDefaultApplicationsClock"});
  find(max_clock, {"nvmlDeviceGetMaxClockInfo"});
  if (init == nullptr || by_bus == nullptr || init() != nvml::success) {
    obstacle_ = "NVML failed to initialize";
    return;
  }
  if (by_bus(bus_id.c_str(), &device_) != nvml::success) {
    device_ = nullptr;
    obstacle_ = fmt::format("NVML does not know the device {}", bus_id);
    return;
  }
  find(clock_, {"nvmlDeviceGetClockInfo"});
  find(temperature_, {"nvmlDeviceGetTemperature"});
  find(power_, {"nvmlDeviceGetPowerUsage"});
  find(reasons_, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  unsigned mhz = 0;
  if (default_clock != nullptr && default_clock(device_, nvml::clock_sm, &mhz) == nvml::success)
    default_clock_mhz_ = mhz;
  else if (max_clock != nullptr && max_clock(device_, nvml::clock_sm, &mhz) == nvml::success)
    default_clock_mhz_ = mhz;
}

Reading Sensors::read() const {
  Reading reading;
  if (device_ == nullptr) return reading;
  unsigned value = 0;
  unsigned long long reasons = 0;
  if (clock_ != nullptr && clock_(device_, nvml::clock_sm, &value) == nvml::success)
    reading.clock_mhz = value;
  if (temperature_ != nullptr && temperature_(device_, nvml::temperature_gpu, &value) == nvml::success)
    reading.temperature_c = value;
  if (power_ != nullptr && power_(device_, &value) == nvml::success) reading.power_w = value / 1000.0;
  if (reasons_ != nullptr && reasons_(device_, &reasons) == nvml::success) reading.throttle = reasons;
  return reading;
}

bool power_limited(std::uint64_t reasons) {
  constexpr std::uint64_t power_cap = 0x4, not_by_load = 0x1f8;  // the other reasons of throttle_words
  return (reasons & power_cap) != 0 && (reasons & not_by_load) == 0;
}

std::string throttle_words(std::uint64_t reasons) {
  static constexpr std::array<std::pair<std::uint64_t, const char*>, 7> names = {
      {{0x4, "software power cap"},
       {0x8, "hardware slowdown"},
       {0x10, "sync boost"},
       {0x20, "software thermal slowdown"},
       {0x40, "hardware thermal slowdown"},
       {0x80, "power brake"},
       {0x100, "display clocks"}}};
  std::string words;
  for (const auto& [bit, name] : names)
    if ((reasons & bit) != 0) words += fmt::format("{}{}", words.empty() ? "" : ", ", name);
  return words;
}

void judge_clock(Sample& sample, const Sensors& sensors, double default_clock_mhz) {
  const Reading reading = sensors.read();
  if (sample.clock_mhz <= 0.0) sample.clock_mhz = reading.clock_mhz;
  sample.temperature_c = reading.temperature_c;
  sample.power_w = reading.power_w;
  sample.throttle = reading.throttle;
  const double least =
      (power_limited(reading.throttle) ? kLeastClockAtPowerLimit : kLeastClock) * default_clock_mhz;
  if (!sample.disturbance.empty() || sample.clock_mhz <= 0.0 || sample.clock_mhz >= least) return;
  const std::string slowed = throttle_words(reading.throttle);
  sample.disturber = Sample::Disturber::device;
  sample.disturbance = fmt::format("the clock was {:.0f} MHz, below the minimum of {:.0f}{}{}",
                                   sample.clock_mhz, least, slowed.empty() ? "" : ": ", slowed);
}

double stamped_clock_mhz(const std::uint64_t* before, std::size_t multiprocessors) {
  const std::uint64_t* const after = before + 2 * multiprocessors;
  std::vector<double> clocks;
  for (std::size_t sm = 0; sm < multiprocessors; ++sm) {
    if (before[2 * sm] == 0 || after[2 * sm] == 0) continue;
    const double ns = static_cast<double>(after[2 * sm]) - static_cast<double>(before[2 * sm]);
    if (ns < kShortestClockedNs) continue;
    clocks.push_back(1e3 * static_cast<double>(after[2 * sm + 1] - before[2 * sm + 1]) / ns);
  }
  if (clocks.empty()) return 0.0;
  std::nth_element(clocks.begin(), clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2),
                   clocks.end());
  return clocks[clocks.size() / 2];
}

}  // namespace cultivar::cuda
