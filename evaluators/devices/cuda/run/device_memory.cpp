// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device_memory.hpp"

#include <algorithm>
#include <utility>

#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/system/secret.hpp"

namespace cultivar::cuda {
namespace {

constexpr Address kLowest = Address{1} << 40, kHighest = Address{7} << 44;  // of random addresses
constexpr int kAttempts = 8;

}  // namespace

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : gpu_(std::exchange(other.gpu_, nullptr)),
      address_(other.address_),
      bytes_(other.bytes_),
      mapped_(other.mapped_),
      base_(other.base_),
      reserved_(other.reserved_) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(base_, other.base_);
  std::swap(reserved_, other.reserved_);
  return *this;
}
DeviceMemory::~DeviceMemory() {
  if (gpu_ == nullptr || gpu_->lost()) return;
  gpu_->allocated() -= held();
  const Driver& driver = gpu_->driver();
  if (mapped_ == 0) {
    driver.MemFree(address_);
    return;
  }
  driver.MemUnmap(address_, mapped_);
  driver.MemAddressFree(base_, reserved_);
}

std::optional<DeviceMemory> DeviceMemory::allocate(Gpu& gpu, std::size_t bytes) {
  DeviceMemory memory;
  memory.gpu_ = &gpu;
  memory.bytes_ = bytes;
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  if (gpu.maps_memory() ? memory.map_somewhere(least)
                        : gpu.driver().MemAlloc(&memory.address_, least) == result::success) {
    gpu.allocated() += memory.held();
    return memory;
  }
  memory.gpu_ = nullptr;  // there is nothing to free
  return std::nullopt;
}

bool DeviceMemory::map_somewhere(std::size_t bytes) {
  const Driver& driver = gpu_->driver();
  MemoryProperties properties;
  properties.device = gpu_->index();
  const std::size_t grain = gpu_->memory_grain(), whole = (bytes + grain - 1) / grain * grain;
  MemoryHandle handle = 0;
  if (driver.MemCreate(&handle, whole, &properties, 0) != result::success) return false;
  Address place = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Address wish = kLowest + secret_seed() % ((kHighest - kLowest) / grain) * grain;
    if (driver.MemAddressReserve(&place, whole, grain, wish, 0) != result::success) place = 0;
    if (place == wish) break;
    if (place != 0) driver.MemAddressFree(place, whole);
    place = 0;
  }
  Address base = place;
  std::size_t reserved = whole;
  // Where the driver grants no wish: a random place in a far larger range that it chooses.
  for (const std::size_t span :
       {std::size_t{1} << 38, std::size_t{1} << 35, std::size_t{1} << 32, std::size_t{0}}) {
    if (place != 0) break;
    reserved = span + whole;
    if (driver.MemAddressReserve(&base, reserved, grain, 0, 0) != result::success) base = 0;
    if (base != 0) place = base + secret_seed() % (span / grain + 1) * grain;
  }
  const MemoryAccess access{MemoryProperties::on_device, gpu_->index(), MemoryAccess::read_and_write};
  const bool mapped = place != 0 && driver.MemMap(place, whole, 0, handle, 0) == result::success;
  driver.MemRelease(handle);  // the mapping keeps the memory
  if (mapped && driver.MemSetAccess(place, whole, &access, 1) == result::success) {
    address_ = place;
    mapped_ = whole;
    base_ = base;
    reserved_ = reserved;
    return true;
  }
  if (mapped) driver.MemUnmap(place, whole);
  if (base != 0) driver.MemAddressFree(base, reserved);
  return false;
}

}  // namespace cultivar::cuda
