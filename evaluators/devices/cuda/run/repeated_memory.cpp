// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/repeated_memory.hpp"

#include <utility>

namespace cultivar::cuda {

RepeatedMemory::RepeatedMemory(RepeatedMemory&& other) noexcept {
  *this = std::move(other);
}

RepeatedMemory& RepeatedMemory::operator=(RepeatedMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(first_, other.first_);
  std::swap(end_, other.end_);
  std::swap(period_, other.period_);
  std::swap(repeats_, other.repeats_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

RepeatedMemory::~RepeatedMemory() {
  if (driver_ == nullptr) return;
  Address at = first_;
  for (const std::uint64_t bytes : mapped_) {
    driver_->MemUnmap(at, bytes);
    at += bytes;
  }
  driver_->MemAddressFree(first_, end_ - first_);
}

std::optional<RepeatedMemory> RepeatedMemory::map(const Driver& driver, int device, std::size_t grain,
                                                  std::uint64_t period, std::uint64_t repeats,
                                                  std::uint64_t rest) {
  if (!driver.maps_memory() || grain == 0 || period == 0 || period % grain != 0 || repeats == 0)
    return std::nullopt;
  const std::uint64_t behind = (rest + grain - 1) / grain * grain;
  MemoryProperties properties;
  properties.device = device;
  RepeatedMemory memory;
  memory.period_ = period, memory.repeats_ = repeats;
  if (driver.MemAddressReserve(&memory.first_, period * repeats + behind, grain, 0, 0) != result::success)
    return std::nullopt;
  memory.end_ = memory.first_ + period * repeats + behind;
  memory.driver_ = &driver;
  const auto add = [&](std::uint64_t bytes, std::uint64_t times) {
    MemoryHandle handle = 0;
    if (driver.MemCreate(&handle, bytes, &properties, 0) != result::success) return false;
    bool mapped = true;
    for (std::uint64_t i = 0; i < times && mapped; ++i) {
      Address at = memory.first_;
      for (const std::uint64_t each : memory.mapped_) at += each;
      mapped = driver.MemMap(at, bytes, 0, handle, 0) == result::success;
      if (mapped) memory.mapped_.push_back(bytes);
    }
    driver.MemRelease(handle);  // the mappings keep the memory
    return mapped;
  };
  const MemoryAccess access{MemoryProperties::on_device, device, MemoryAccess::read_and_write};
  if (!add(period, repeats) || (behind > 0 && !add(behind, 1)) ||
      driver.MemSetAccess(memory.first_, memory.end_ - memory.first_, &access, 1) != result::success)
    return std::nullopt;
  return memory;
}

}  // namespace cultivar::cuda
