// SPDX-License-Identifier: Apache-2.0
// The tensors of a plan in memory of a device's own: copied there before a run and back after it, with the
// guards around them, so that a write beyond a tensor arrives in the guards that the worker looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

namespace cultivar::opencl {

// A region of the memory shared with the worker: the data of one buffer with guards around it.
struct Mapped {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool input = false;
};

class DeviceCopies {
 public:
  DeviceCopies(const Opened&, std::vector<Mapped>);
  void begin();  // the next run's buffers follow; those of the last run are released
  // A buffer with the region's contents; the result is the part of it that holds `data`. Also evicts what the
  // device's caches hold, once for each run.
  cl_mem place(std::size_t region, const std::byte* data, std::size_t bytes);
  // Copies back what kernels may write. Where in its region the first input differs whose copy has changed.
  std::optional<std::uint64_t> fetch();

 private:
  void flush_caches();
  const Opened opened_;
  std::vector<Mapped> regions_;
  std::vector<cl_mem> whole_;
  std::vector<std::size_t> paddings_;
  std::size_t alignment_ = 1;  // of the beginning of a part, in bytes
  cl_mem evictor_ = nullptr;
  std::size_t evictor_bytes_ = 0;
};

}  // namespace cultivar::opencl
