// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "evaluators/devices/cuda/run/session.hpp"

namespace cultivar::cuda {
namespace {

// A sample whose clock is below this fraction of the default clock does not count (evaluation.md).
constexpr double kLeastClock = 0.75;
// The fraction if only the power limit slows the card: the better a kernel loads it, the more it does.
constexpr double kLeastClockAtPowerLimit = 0.6;
constexpr double kShortestClockedNs = 50e3;

}  // namespace

// Called after the turn: the sensors take milliseconds to respond, during which another worker's kernels may
// run.
void CudaSession::judge_clock(Sample& sample) const {
  const Reading reading = gpu_.sensors().read();
  if (sample.clock_mhz <= 0.0) sample.clock_mhz = reading.clock_mhz;
  sample.temperature_c = reading.temperature_c;
  sample.power_w = reading.power_w;
  sample.throttle = reading.throttle;
  const double least =
      (power_limited(reading.throttle) ? kLeastClockAtPowerLimit : kLeastClock) * gpu_.default_clock_mhz();
  if (!sample.disturbance.empty() || sample.clock_mhz <= 0.0 || sample.clock_mhz >= least) return;
  const std::string slowed = throttle_words(reading.throttle);
  sample.disturber = Sample::Disturber::device;
  sample.disturbance = fmt::format("the clock was {:.0f} MHz, below the minimum of {:.0f}{}{}",
                                   sample.clock_mhz, least, slowed.empty() ? "" : ": ", slowed);
}

double CudaSession::clock_mhz() const {
  const auto count = static_cast<std::size_t>(gpu_.attribute(attribute::multiprocessors));
  const auto* const before = static_cast<const std::uint64_t*>(gpu_.tools().stamps.host);
  const std::uint64_t* const after = before + 2 * count;
  std::vector<double> clocks;
  for (std::size_t sm = 0; sm < count; ++sm) {
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
