// SPDX-License-Identifier: Apache-2.0
// A range of addresses in which the same memory lies many times, one after the other, and memory of its own
// behind it: tensors of more elements than 32-bit numbers count, in a few megabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {

// Move-only. Unmapped on destruction, unless it is left.
class RepeatedMemory {
 public:
  // `period`: a multiple of the driver's granularity. `rest`: the bytes behind. nullopt if the driver
  // refuses.
  static std::optional<RepeatedMemory> map(const Driver&, int device, std::size_t grain, std::uint64_t period,
                                           std::uint64_t repeats, std::uint64_t rest);
  RepeatedMemory() = default;
  RepeatedMemory(RepeatedMemory&& other) noexcept;
  RepeatedMemory& operator=(RepeatedMemory&& other) noexcept;
  ~RepeatedMemory();

  Address first() const { return first_; }  // of the whole range
  // Where the memory of the period lies for the last time, and directly behind it the rest.
  Address last() const { return first_ + period_ * (repeats_ - 1); }
  std::uint64_t stored() const {
    return end_ - last();
  }                                    // bytes from last() on, to the end of the last granule
  void leave() { driver_ = nullptr; }  // because the context is lost, and unmapping could block forever

 private:
  const Driver* driver_ = nullptr;
  Address first_ = 0, end_ = 0;
  std::uint64_t period_ = 0, repeats_ = 1;
  std::vector<std::uint64_t> mapped_;  // bytes of each mapping, in order
};

}  // namespace cultivar::cuda
