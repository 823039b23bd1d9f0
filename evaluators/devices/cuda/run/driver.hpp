// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, loaded at run time: Cultivar builds without one and reports at run time what is missing.
#pragma once

#include <string>

#include "evaluators/devices/cuda/run/driver_types.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar::cuda {

// The functions of libcuda.so.1 in use, by their names without `cu` (the newest version of each that CUDA 12
// and 13 share).
struct Driver {
  Result (*Init)(unsigned) = nullptr;
  Result (*DriverGetVersion)(int*) = nullptr;
  Result (*GetErrorName)(Result, const char**) = nullptr;
  Result (*GetErrorString)(Result, const char**) = nullptr;
  Result (*DeviceGetCount)(int*) = nullptr;
  Result (*DeviceGet)(DeviceHandle*, int) = nullptr;
  Result (*DeviceGetName)(char*, int, DeviceHandle) = nullptr;
  Result (*DeviceGetAttribute)(int*, int, DeviceHandle) = nullptr;
  Result (*DeviceTotalMem)(std::size_t*, DeviceHandle) = nullptr;
  Result (*DeviceGetPCIBusId)(char*, int, DeviceHandle) = nullptr;
  Result (*DeviceGetUuid)(void* sixteen_bytes, DeviceHandle) = nullptr;
  Result (*DevicePrimaryCtxRetain)(Context*, DeviceHandle) = nullptr;
  Result (*DevicePrimaryCtxSetFlags)(DeviceHandle, unsigned) = nullptr;
  Result (*CtxSetCurrent)(Context) = nullptr;
  Result (*CtxSynchronize)() = nullptr;
  Result (*CtxResetPersistingL2Cache)() = nullptr;
  Result (*ModuleLoadData)(Module*, const void*) = nullptr;
  Result (*ModuleUnload)(Module) = nullptr;
  Result (*ModuleGetFunction)(Function*, Module, const char*) = nullptr;
  Result (*FuncLoad)(Function) = nullptr;  // nullptr before CUDA 12.4
  Result (*FuncGetAttribute)(int*, int, Function) = nullptr;
  Result (*FuncSetAttribute)(Function, int, int) = nullptr;
  Result (*LaunchKernelEx)(const LaunchConfig*, Function, void** parameters, void** extra) = nullptr;
  Result (*OccupancyMaxActiveBlocksPerMultiprocessor)(int*, Function, int, std::size_t) = nullptr;
  Result (*TensorMapEncodeTiled)(TensorMap*, int type, std::uint32_t rank, void* address,
                                 const std::uint64_t* sizes, const std::uint64_t* strides,
                                 const std::uint32_t* box, const std::uint32_t* element_strides,
                                 int interleave, int swizzle, int promotion, int fill) = nullptr;
  Result (*MemGetInfo)(std::size_t* free, std::size_t* total) = nullptr;
  Result (*MemAlloc)(Address*, std::size_t) = nullptr;
  Result (*MemFree)(Address) = nullptr;
  // nullptr if the driver lacks one of them; see maps_memory.
  Result (*MemGetAllocationGranularity)(std::size_t*, const MemoryProperties*, int option) = nullptr;
  Result (*MemCreate)(MemoryHandle*, std::size_t, const MemoryProperties*, unsigned long long) = nullptr;
  Result (*MemRelease)(MemoryHandle) = nullptr;
  Result (*MemAddressReserve)(Address*, std::size_t bytes, std::size_t alignment, Address wish,
                              unsigned long long) = nullptr;
  Result (*MemAddressFree)(Address, std::size_t) = nullptr;
  Result (*MemMap)(Address, std::size_t, std::size_t offset, MemoryHandle, unsigned long long) = nullptr;
  Result (*MemUnmap)(Address, std::size_t) = nullptr;
  Result (*MemSetAccess)(Address, std::size_t, const MemoryAccess*, std::size_t count) = nullptr;
  bool maps_memory() const {
    return MemGetAllocationGranularity != nullptr && MemCreate != nullptr && MemRelease != nullptr &&
           MemAddressReserve != nullptr && MemAddressFree != nullptr && MemMap != nullptr &&
           MemUnmap != nullptr && MemSetAccess != nullptr;
  }
  Result (*MemHostAlloc)(void**, std::size_t, unsigned) = nullptr;
  Result (*MemFreeHost)(void*) = nullptr;
  Result (*MemHostGetDevicePointer)(Address*, void*, unsigned) = nullptr;
  Result (*MemcpyHtoDAsync)(Address, const void*, std::size_t, Stream) = nullptr;
  Result (*MemcpyDtoHAsync)(void*, Address, std::size_t, Stream) = nullptr;
  Result (*MemsetD8Async)(Address, unsigned char, std::size_t, Stream) = nullptr;
  Result (*StreamCreate)(Stream*, unsigned) = nullptr;
  Result (*StreamDestroy)(Stream) = nullptr;
  Result (*StreamSynchronize)(Stream) = nullptr;
  Result (*EventCreate)(Event*, unsigned) = nullptr;
  Result (*EventDestroy)(Event) = nullptr;
  Result (*EventRecord)(Event, Stream) = nullptr;
  Result (*EventQuery)(Event) = nullptr;
  Result (*EventElapsedTime)(float* ms, Event, Event) = nullptr;

  // "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
  std::string words(Result) const;
  // Throws MissingError with `what` and the driver's error message.
  void must(Result, const char* what) const;
};

// Loaded once and never unloaded. The Error names the missing library or function and what to install.
Expected<const Driver*> load_driver();

// Opens the first of these libraries that loads; on failure nullptr, with the reason in `why`.
void* open_library(std::initializer_list<const char*> names, std::string* why);

}  // namespace cultivar::cuda
