// The device's copies of stretches, from which the inputs of runs are windows. Copying pageable memory takes
// ten times as long as copying what the device can read by itself; so that other workers do not wait for it,
// a stretch is staged before the turn, and copied in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evaluators/targets/cuda/device_memory.hpp"

namespace cultivar::cuda {

class Residents {  // not thread-safe
 public:
  explicit Residents(Gpu& gpu) : gpu_(gpu) {}
  Residents(const Residents&) = delete;
  ~Residents();

  // Outside of a turn: unless it is on the device, the stretch is copied to where the device can fetch it.
  // Without room for that nothing is lost but time.
  void stage(std::uint64_t stretch, std::span<const std::byte> whole);
  // The device's copy, made when it is new; the least recently used make room. 0: the device has no memory.
  Address get(std::uint64_t stretch, std::span<const std::byte> whole);

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
