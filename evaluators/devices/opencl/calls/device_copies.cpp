// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/calls/device_copies.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cultivar::opencl {

DeviceCopies::DeviceCopies(const Opened& opened, std::vector<Mapped> regions)
    : opened_(opened),
      regions_(std::move(regions)),
      whole_(regions_.size(), nullptr),
      paddings_(regions_.size(), 0),
      alignment_(
          std::max<std::size_t>(1, number_of<cl_uint>(opened.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8)),
      evictor_bytes_(std::max<std::size_t>(std::size_t{32} << 20,
                                           2 * static_cast<std::size_t>(number_of<cl_ulong>(
                                                   opened.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)))) {
  cl_int code = 0;
  evictor_ = clCreateBuffer(opened_.context, CL_MEM_READ_WRITE, evictor_bytes_, nullptr, &code);
  check(code, "clCreateBuffer");
}

void DeviceCopies::begin() {
  for (cl_mem& memory : whole_)
    if (memory != nullptr) check(clReleaseMemObject(std::exchange(memory, nullptr)), "clReleaseMemObject");
}

cl_mem DeviceCopies::place(std::size_t region, const std::byte* data, std::size_t bytes) {
  const Mapped& mapped = regions_.at(region);
  const auto offset = static_cast<std::size_t>(data - mapped.begin);
  paddings_[region] = (alignment_ - offset % alignment_) % alignment_;
  cl_int code = 0;
  whole_[region] =
      clCreateBuffer(opened_.context, CL_MEM_READ_WRITE, mapped.bytes + alignment_, nullptr, &code);
  check(code, "clCreateBuffer");
  check(clEnqueueWriteBuffer(opened_.queue, whole_[region], CL_TRUE, paddings_[region], mapped.bytes,
                             mapped.begin, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
  const cl_buffer_region part{paddings_[region] + offset, std::max<std::size_t>(bytes, 1)};
  const cl_mem memory =
      clCreateSubBuffer(whole_[region], CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &part, &code);
  check(code, "clCreateSubBuffer");
  if (region + 1 == regions_.size()) flush_caches();
  return memory;
}

void DeviceCopies::flush_caches() {
  const cl_uint nothing = 0;
  check(clEnqueueFillBuffer(opened_.queue, evictor_, &nothing, sizeof nothing, 0, evictor_bytes_, 0, nullptr,
                            nullptr),
        "clEnqueueFillBuffer");
}

std::optional<std::uint64_t> DeviceCopies::fetch() {
  std::vector<std::byte> copy;
  std::optional<std::uint64_t> changed;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Mapped& mapped = regions_[i];
    if (mapped.input) copy.resize(mapped.bytes);
    check(clEnqueueReadBuffer(opened_.queue, whole_[i], CL_TRUE, paddings_[i], mapped.bytes,
                              mapped.input ? copy.data() : mapped.begin, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    if (!mapped.input || changed) continue;
    const auto found = std::mismatch(copy.begin(), copy.end(), mapped.begin);
    if (found.first != copy.end()) changed = reinterpret_cast<std::uint64_t>(found.second);
  }
  return changed;
}

}  // namespace cultivar::opencl
