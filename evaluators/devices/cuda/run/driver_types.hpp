// SPDX-License-Identifier: Apache-2.0
// The types of the CUDA driver API, NVML and CUPTI that Cultivar uses, declared here so that everything
// builds without a toolkit. driver_types_check.cpp compares them with NVIDIA's headers if CMake finds them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cultivar::cuda {

using Result = int;  // CUresult; 0 is success
using DeviceHandle = int;
using Address = unsigned long long;  // CUdeviceptr
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;

namespace result {
inline constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, deinitialized = 4, no_device = 100,
                        ecc_uncorrectable = 214, not_ready = 600, illegal_address = 700,
                        launch_out_of_resources = 701, cooperative_too_large = 720,
                        invalid_cluster_size = 912;
// Errors from first_sticky to last_sticky mean that a kernel has broken its context: no call works in this
// process any more.
inline constexpr Result first_sticky = 710, last_sticky = 719;
}  // namespace result

namespace attribute {  // CUdevice_attribute
inline constexpr int clock_khz = 13, multiprocessors = 16, memory_clock_khz = 36, l2_bytes = 38,
                     threads_of_multiprocessor = 39, major = 75, minor = 76, registers_of_multiprocessor = 82,
                     pageable_access = 88, shared_optin = 97, memory_mapping = 102, persisting_l2 = 108,
                     cluster_launch = 120;
}
namespace function_attribute {  // CUfunction_attribute
inline constexpr int max_threads = 0, shared_bytes = 1, local_bytes = 3, registers = 4,
                     max_dynamic_shared = 8, nonportable_cluster = 14;
}
namespace flag {
inline constexpr unsigned stream_non_blocking = 1, host_mapped = 2, event_default = 0, context_spin = 1;
}

using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle
struct MemoryProperties {                 // CUmemAllocationProp: pinned memory of a device
  static constexpr int pinned = 1, on_device = 1;
  int type = pinned, handle_types = 0, location = on_device, device = 0;
  void* unused = nullptr;
  unsigned char flags[8] = {};
};
struct MemoryAccess {  // CUmemAccessDesc
  static constexpr int read_and_write = 3;
  int location = MemoryProperties::on_device, device = 0, flags = read_and_write;
};

struct alignas(128) TensorMap {  // CUtensorMap
  std::uint64_t opaque[16];
};

struct LaunchAttribute {  // CUlaunchAttribute
  int id = 0;
  char pad[4] = {};
  union alignas(8) Value {
    char bytes[64];
    int number;
    unsigned dimensions[3];
  } value{};
};
namespace launch_attribute {  // CUlaunchAttributeID
inline constexpr int cooperative = 2, cluster_dimension = 4, programmatic_serialization = 6;
}
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// --- NVML ---

using NvmlDevice = struct NvmlDeviceTag*;
namespace nvml {
inline constexpr int success = 0, clock_sm = 1, temperature_gpu = 0;
// nvmlClocksEventReasons: what slows the clock. Idle and the user's own settings are not problems.
inline constexpr unsigned long long reason_idle = 0x1, reason_settings = 0x2;
}  // namespace nvml

// --- CUPTI ---

namespace cupti {
inline constexpr int success = 0, kind_kernel = 3, kind_concurrent_kernel = 10;

// The common fields of CUpti_ActivityKernel9 and 10, up to the name.
#pragma pack(push, 8)
struct alignas(8) KernelRecord {
  int kind;
  std::uint8_t cache_config, shared_config;
  std::uint16_t registers;
  int partitioned_requested, partitioned_executed;
  std::uint64_t start, end, completed;  // ns
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_each, local_total, correlation;
  std::int64_t grid_id;
  const char* name;
};
#pragma pack(pop)
}  // namespace cupti

}  // namespace cultivar::cuda
