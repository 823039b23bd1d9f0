// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "evaluators/devices/cuda/run/driver.hpp"

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

}  // namespace cultivar::cuda
