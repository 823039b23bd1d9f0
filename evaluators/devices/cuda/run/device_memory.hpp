// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar::cuda {

class Gpu;

// Move-only. Freed on destruction unless the context is lost, because freeing could then block forever.
//
// Each piece lies alone, at a random address between unmapped ones: from the address of one piece a kernel
// learns nothing about where the others are, and a kernel that searches for them faults. Where the driver
// cannot map memory so, and under instruments that know only plain allocations, it is allocated plainly.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  // nullopt if the device has too little free memory.
  static std::optional<DeviceMemory> allocate(Gpu&, std::size_t bytes);
  Address address() const { return address_; }
  std::size_t size() const { return bytes_; }
  bool alone() const { return mapped_ != 0; }  // between unmapped addresses

 private:
  bool map_somewhere(std::size_t bytes);
  std::size_t held() const { return mapped_ == 0 ? bytes_ : mapped_; }
  Gpu* gpu_ = nullptr;
  Address address_ = 0;
  std::size_t bytes_ = 0, mapped_ = 0;
  Address base_ = 0;  // of the reserved addresses around it
  std::size_t reserved_ = 0;
};

// The device's copies of stretches (blocks of input data); inputs of runs are windows of them. Copying
// pageable memory takes ten times as long as copying memory that the device can access directly. To keep
// other workers from waiting for it, a stretch is staged before the turn and copied during it.
class Residents {  // not thread-safe
 public:
  explicit Residents(Gpu& gpu) : gpu_(gpu) {}
  Residents(const Residents&) = delete;
  ~Residents();

  // Call outside a turn: copies the stretch to memory that the device can access, unless the device already
  // has it. Lack of memory costs only time.
  void stage(std::uint64_t stretch, std::span<const std::byte> whole);
  // The device's copy, made if new; evicts the least recently used copies. 0: the device is out of memory.
  Address get(std::uint64_t stretch, std::span<const std::byte> whole);
  // Frees the device's copies, for whoever needs the memory more; get() makes them again.
  void evict_all() { residents_.clear(); }

 private:
  struct Resident {
    std::uint64_t stretch = 0;
    DeviceMemory memory;
    std::uint64_t last_used = 0;
  };
  struct Staged {
    std::uint64_t stretch = 0;
    void* memory = nullptr;
    std::size_t bytes = 0;
    std::uint64_t last_used = 0;
  };
  Gpu& gpu_;
  std::vector<Resident> residents_;
  std::vector<Staged> staged_;
  std::uint64_t uses_ = 0;
};

// A range of addresses in which the same memory lies many times, one after the other, and memory of its own
// behind it: tensors of more elements than 32-bit numbers count, in a few megabytes.
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

// Whose fault it is that a card has too little memory: the kernel's, or that of other programs.
struct CardMemory {
  std::uint64_t total = 0, free = 0;  // bytes
  std::uint64_t own = 0;              // what this process has allocated
};

// After `needed` more bytes could not be allocated: memory_held if they would fit without other programs,
// else out_of_memory. `what` begins the fault's text.
Fault lack_of_memory(const CardMemory&, std::uint64_t needed, const std::string& what);

// With HMM (Heterogeneous Memory Management) or ATS a GPU can read all memory of a process by its host
// addresses, expected values and random seeds included. No screen sees what address a kernel loads from, so
// the worker asks the driver to leave its memory alone. A card that cannot is reported as a weakness; there,
// only the random addresses (above, and address space layout randomization) stand in the way.

// What to change if kernels on this card could read the worker's memory; empty if they cannot. Call after the
// context was created.
std::string pageable_memory_obstacle(const Gpu&);

}  // namespace cultivar::cuda
