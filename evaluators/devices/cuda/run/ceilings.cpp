// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar::cuda {
namespace {

constexpr double kDeadlineSeconds = 20.0;
constexpr std::size_t kCopyBytes = std::size_t{1} << 30;
// The latest architecture whose matrix units the kernels of own_kernels.cu can saturate.
constexpr int kLastKnownCapability = 90;

class Meter {
 public:
  explicit Meter(Gpu& gpu) : gpu_(gpu) {}

  // The shortest of `runs` launches, in seconds.
  template <class Launch>
  double seconds(int runs, const Launch& launch) {
    const Driver& driver = gpu_.driver();
    double best = 1e9;
    for (int i = 0; i <= runs; ++i) {
      driver.must(driver.EventRecord(gpu_.tools().begin, gpu_.stream()), "measuring peak rates");
      driver.must(launch(), "measuring peak rates");
      driver.must(driver.EventRecord(gpu_.tools().end, gpu_.stream()), "measuring ceilings");
      if (const auto fault = gpu_.wait(deadline_in(kDeadlineSeconds), "a kernel that measures peak rates"))
        throw MissingError(fault->detail);
      float ms = 0.0f;
      driver.must(driver.EventElapsedTime(&ms, gpu_.tools().begin, gpu_.tools().end), "measuring peak rates");
      if (i > 0) best = std::min(best, static_cast<double>(ms) * 1e-3);
    }
    return best;
  }

  Ceilings measure() {
    const OwnKernels& own = gpu_.kernels();
    const auto memory = [&](std::size_t bytes) {
      auto allocated = DeviceMemory::allocate(gpu_, bytes);
      if (!allocated)
        throw std::runtime_error(
            "the GPU has too little free memory to measure its peak rates; free some and try again");
      gpu_.driver().must(own.poison(allocated->address(), bytes, 1), "measuring peak rates");
      return std::move(*allocated);
    };
    const DeviceMemory from = memory(kCopyBytes), to = memory(kCopyBytes);
    Ceilings result;
    result.bytes_per_second =
        2.0 * kCopyBytes / seconds(20, [&] { return own.copy(to.address(), from.address(), kCopyBytes); });
    result.bytes_per_second =
        std::max(result.bytes_per_second, 1.0 * kCopyBytes / seconds(10, [&] {
                                            return own.read(from.address(), kCopyBytes, 1, to.address());
                                          }));
    const std::size_t near = static_cast<std::size_t>(gpu_.attribute(attribute::l2_bytes)) / 4;
    constexpr std::uint32_t passes = 64;
    result.cached_bytes_per_second =
        std::max(static_cast<double>(near) * passes /
                     seconds(10, [&] { return own.read(from.address(), near, passes, to.address()); }),
                 result.bytes_per_second);
    result.handshake_s = seconds(50, [&] { return own.nothing(); });
    const int capability = gpu_.capability();
    if (capability <= kLastKnownCapability) {
      double flops = 0.0;
      const double took = seconds(20, [&] { return own.matrix(4000, to.address(), capability, &flops); });
      result.flops = flops / took;
    }
    return result;
  }

 private:
  Gpu& gpu_;
};

std::string name_of(const Gpu& gpu) {
  int version = 0;
  gpu.driver().must(gpu.driver().DriverGetVersion(&version), "reading the driver version");
  return fmt::format("{} {} driver {}", gpu.name(), gpu.bus_id(), version);
}

}  // namespace

Ceilings ceilings_of(Gpu& gpu, const std::filesystem::path& cache) {
  if (const auto known = kept_ceilings(cache, name_of(gpu))) return *known;
  Ceilings result = Meter(gpu).measure();
  keep_ceilings(cache, name_of(gpu), result);
  return result;
}

Ceilings raised_ceilings(Gpu& gpu, const std::filesystem::path& cache, Ceilings known) {
  const Ceilings again = Meter(gpu).measure();
  raise_rates(known, again);
  known.handshake_s = std::min(known.handshake_s, again.handshake_s);
  keep_ceilings(cache, name_of(gpu), known);
  return known;
}

}  // namespace cultivar::cuda
