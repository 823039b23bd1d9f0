// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device_memory.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <utility>

#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/system/random.hpp"

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

namespace {

constexpr std::size_t kMostResidents = 12, kMostStaged = 4;
constexpr std::size_t kStretchPadding = 16;  // because windows are read in whole words
// Memory that the device accesses directly cannot be paged out, so this limits it per stretch.
constexpr std::size_t kMostStagedBytes = std::size_t{1} << 30;

template <class Places>
auto find(Places& places, std::uint64_t stretch) {
  return std::ranges::find_if(places, [&](const auto& place) { return place.stretch == stretch; });
}

template <class Places>
auto& oldest_or_new(Places& places, std::size_t most) {
  if (places.size() < most) return places.emplace_back();
  return *std::ranges::min_element(places, {}, [](const auto& place) { return place.last_used; });
}

}  // namespace

Residents::~Residents() {
  for (const Staged& staged : staged_)
    if (!gpu_.lost()) gpu_.driver().MemFreeHost(staged.memory);
}

void Residents::stage(std::uint64_t stretch, std::span<const std::byte> whole) {
  if (gpu_.lost() || whole.size() > kMostStagedBytes) return;
  if (find(residents_, stretch) != residents_.end() || find(staged_, stretch) != staged_.end()) return;
  Staged& place = oldest_or_new(staged_, kMostStaged);
  place.stretch = 0;
  if (place.bytes < whole.size()) {
    if (place.memory != nullptr) gpu_.driver().MemFreeHost(place.memory);
    place.memory = nullptr;
    place.bytes = 0;
    if (gpu_.driver().MemHostAlloc(&place.memory, whole.size(), 0) != result::success) {
      place.memory = nullptr;
      return;
    }
    place.bytes = whole.size();
  }
  std::memcpy(place.memory, whole.data(), whole.size());
  place.stretch = stretch;
  place.last_used = ++uses_;
}

Address Residents::get(std::uint64_t stretch, std::span<const std::byte> whole) {
  ++uses_;
  if (const auto known = find(residents_, stretch); known != residents_.end()) {
    known->last_used = uses_;
    return known->memory.address();
  }
  const std::size_t bytes = whole.size() + kStretchPadding;
  Resident* place = &oldest_or_new(residents_, kMostResidents);
  place->stretch = 0;
  if (place->memory.size() != bytes) {
    place->memory = DeviceMemory();
    auto memory = DeviceMemory::allocate(gpu_, bytes);
    if (!memory) {  // evict all others
      residents_.clear();
      place = &residents_.emplace_back();
      memory = DeviceMemory::allocate(gpu_, bytes);
    }
    if (!memory) return 0;
    place->memory = std::move(*memory);
  }
  const auto staged = find(staged_, stretch);
  const void* const from = staged != staged_.end() ? staged->memory : whole.data();
  if (gpu_.driver().MemcpyHtoDAsync(place->memory.address(), from, whole.size(), gpu_.stream()) !=
      result::success)
    return 0;
  place->stretch = stretch;
  place->last_used = uses_;
  return place->memory.address();
}

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

namespace {

// At most what a process holds beyond its allocations: its context, code, and the local memory of its
// kernels.
constexpr std::uint64_t kContext = std::uint64_t{2} << 30;

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30);
}

}  // namespace

Fault lack_of_memory(const CardMemory& card, std::uint64_t needed, const std::string& what) {
  const std::uint64_t own = card.own + kContext, used = card.total - card.free;
  const bool fits_alone = own <= card.total && needed <= card.total - own;
  if (!fits_alone || used <= own) return {Fault::Kind::out_of_memory, what};
  return {Fault::Kind::memory_held,
          fmt::format("{}: of the card's {}, {} are free, and other programs hold about {}", what,
                      gib(card.total), gib(card.free), gib(used - card.own))};
}

}  // namespace cultivar::cuda

namespace {

// From NVIDIA's open kernel modules, uvm_linux_ioctl.h and uvm_types.h.
constexpr unsigned long kUvmInitialize = 0x30000001;
constexpr std::uint64_t kDisableHmm = 1;
struct UvmInitialize {
  std::uint64_t flags;
  std::uint32_t status;
};

}  // namespace

// The driver opens its memory manager with this call, and programs with this symbol take precedence over
// libc's. The only change: HMM is not requested. A kernel module that does not know the flag is asked again
// without it.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request != kUvmInitialize || argument == nullptr)
    return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
  auto* const order = static_cast<UvmInitialize*>(argument);
  const std::uint64_t flags = order->flags;
  order->flags = flags | kDisableHmm;
  const long result = ::syscall(SYS_ioctl, fd, request, argument);
  if (result == 0 && order->status == 0) return 0;
  order->flags = flags;
  order->status = 0;
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

namespace cultivar::cuda {

std::string pageable_memory_obstacle(const Gpu& gpu) {
  int reachable = 0;
  if (gpu.driver().DeviceGetAttribute(&reachable, attribute::pageable_access, gpu.index()) !=
          result::success ||
      reachable == 0)
    return {};
  return fmt::format(
      "kernels on {} can read this process's memory (HMM or ATS): one that guessed the address of the "
      "expected values could copy them; load the kernel module nvidia-uvm with uvm_disable_hmm=1 (a line "
      "'options nvidia-uvm uvm_disable_hmm=1' in /etc/modprobe.d, then a restart)",
      gpu.name());
}

}  // namespace cultivar::cuda
