// SPDX-License-Identifier: Apache-2.0
// The device's copies of stretches (blocks of input data); inputs of runs are windows of them. Copying
// pageable memory takes ten times as long as copying memory that the device can access directly. To keep
// other workers from waiting for it, a stretch is staged before the turn and copied during it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evaluators/devices/cuda/run/device_memory.hpp"

namespace cultivar::cuda {

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

}  // namespace cultivar::cuda
