#pragma once

#include <cstddef>
#include <optional>

#include "evaluators/targets/cuda/driver.hpp"

namespace cultivar::cuda {

class Gpu;

// Move-only. Freed on destruction unless the context is lost, because freeing could then block forever.
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

 private:
  Gpu* gpu_ = nullptr;
  Address address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace cultivar::cuda
