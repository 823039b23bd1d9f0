// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cultivar::cuda {

void* open_library(std::initializer_list<const char*> names, std::string* why) {
  for (const char* name : names) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    if (why->empty()) *why = dlerror();
  }
  return nullptr;
}

namespace {

Expected<const Driver*> loaded_driver() {
  std::string why;
  void* const library = open_library(
      {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}, &why);
  if (library == nullptr)
    return failure(ErrorKind::missing, "load the CUDA driver",
                   fmt::format("no CUDA driver ({}); the target cuda needs an NVIDIA GPU and its driver "
                               "(libcuda.so.1)",
                               why));
  static Driver driver;
  std::string missing;
  const auto find = [&](auto& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function != nullptr) return;
    }
    missing += fmt::format(" {}", *names.begin());
  };
  find(driver.Init, {"cuInit"});
  find(driver.DriverGetVersion, {"cuDriverGetVersion"});
  find(driver.GetErrorName, {"cuGetErrorName"});
  find(driver.GetErrorString, {"cuGetErrorString"});
  find(driver.DeviceGetCount, {"cuDeviceGetCount"});
  find(driver.DeviceGet, {"cuDeviceGet"});
  find(driver.DeviceGetName, {"cuDeviceGetName"});
  find(driver.DeviceGetAttribute, {"cuDeviceGetAttribute"});
  find(driver.DeviceTotalMem, {"cuDeviceTotalMem_v2"});
  find(driver.DeviceGetPCIBusId, {"cuDeviceGetPCIBusId"});
  find(driver.DeviceGetUuid, {"cuDeviceGetUuid_v2"});
  find(driver.DevicePrimaryCtxRetain, {"cuDevicePrimaryCtxRetain"});
  find(driver.DevicePrimaryCtxSetFlags, {"cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags"});
  find(driver.CtxSetCurrent, {"cuCtxSetCurrent"});
  find(driver.CtxSynchronize, {"cuCtxSynchronize"});
  find(driver.CtxResetPersistingL2Cache, {"cuCtxResetPersistingL2Cache"});
  find(driver.ModuleLoadData, {"cuModuleLoadData"});
  find(driver.ModuleUnload, {"cuModuleUnload"});
  find(driver.ModuleGetFunction, {"cuModuleGetFunction"});
  find(driver.FuncGetAttribute, {"cuFuncGetAttribute"});
  find(driver.FuncSetAttribute, {"cuFuncSetAttribute"});
  find(driver.LaunchKernelEx, {"cuLaunchKernelEx"});
  find(driver.OccupancyMaxActiveBlocksPerMultiprocessor, {"cuOccupancyMaxActiveBlocksPerMultiprocessor"});
  find(driver.TensorMapEncodeTiled, {"cuTensorMapEncodeTiled"});
  find(driver.MemGetInfo, {"cuMemGetInfo_v2"});
  find(driver.MemAlloc, {"cuMemAlloc_v2"});
  find(driver.MemFree, {"cuMemFree_v2"});
  find(driver.MemHostAlloc, {"cuMemHostAlloc"});
  find(driver.MemFreeHost, {"cuMemFreeHost"});
  find(driver.MemHostGetDevicePointer, {"cuMemHostGetDevicePointer_v2"});
  find(driver.MemcpyHtoDAsync, {"cuMemcpyHtoDAsync_v2"});
  find(driver.MemcpyDtoHAsync, {"cuMemcpyDtoHAsync_v2"});
  find(driver.MemsetD8Async, {"cuMemsetD8Async"});
  find(driver.StreamCreate, {"cuStreamCreate"});
  find(driver.StreamDestroy, {"cuStreamDestroy_v2"});
  find(driver.StreamSynchronize, {"cuStreamSynchronize"});
  find(driver.EventCreate, {"cuEventCreate"});
  find(driver.EventDestroy, {"cuEventDestroy_v2"});
  find(driver.EventRecord, {"cuEventRecord"});
  find(driver.EventQuery, {"cuEventQuery"});
  find(driver.EventElapsedTime, {"cuEventElapsedTime_v2", "cuEventElapsedTime"});
  if (!missing.empty())
    return failure(ErrorKind::missing, "load the CUDA driver",
                   fmt::format("the CUDA driver lacks{}; install a driver of CUDA 12 or later", missing));
  const auto find_newer = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
  find_newer(driver.MemGetAllocationGranularity, "cuMemGetAllocationGranularity");
  find_newer(driver.MemCreate, "cuMemCreate");
  find_newer(driver.MemRelease, "cuMemRelease");
  find_newer(driver.MemAddressReserve, "cuMemAddressReserve");
  find_newer(driver.MemAddressFree, "cuMemAddressFree");
  find_newer(driver.MemMap, "cuMemMap");
  find_newer(driver.MemUnmap, "cuMemUnmap");
  find_newer(driver.MemSetAccess, "cuMemSetAccess");
  driver.FuncLoad = reinterpret_cast<Result (*)(Function)>(dlsym(library, "cuFuncLoad"));
  if (const Result started = driver.Init(0); started != result::success)
    return failure(ErrorKind::missing, "load the CUDA driver",
                   fmt::format("the CUDA driver failed to initialize: {}", driver.words(started)));
  return &driver;
}

}  // namespace

Expected<const Driver*> load_driver() {
  static const Expected<const Driver*> once = loaded_driver();
  return once;
}

std::string Driver::words(Result code) const {
  const char *name = nullptr, *text = nullptr;
  if (GetErrorName(code, &name) != result::success || name == nullptr)
    return fmt::format("CUDA error {}", code);
  if (GetErrorString(code, &text) != result::success || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

void Driver::must(Result code, const char* what) const {
  if (code != result::success) throw MissingError(fmt::format("{}: {}", what, words(code)));
}

}  // namespace cultivar::cuda
