// SPDX-License-Identifier: Apache-2.0
// Compares the declarations of driver_types.hpp with NVIDIA's headers if they are found; otherwise this file
// is empty.
#include "evaluators/devices/cuda/run/driver_types.hpp"

#if __has_include(<cuda.h>) && __has_include(<cuda_fp16.h>)
#include <cuda.h>

namespace cultivar::cuda {

static_assert(sizeof(DeviceHandle) == sizeof(CUdevice) && sizeof(Address) == sizeof(CUdeviceptr));
static_assert(result::not_ready == CUDA_ERROR_NOT_READY && result::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(result::illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(result::launch_out_of_resources == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
static_assert(result::first_sticky == CUDA_ERROR_ASSERT && result::last_sticky == CUDA_ERROR_LAUNCH_FAILED);
static_assert(result::cooperative_too_large == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
static_assert(result::ecc_uncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(result::invalid_cluster_size == CUDA_ERROR_INVALID_CLUSTER_SIZE);
static_assert(attribute::clock_khz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(attribute::multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(attribute::memory_clock_khz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(attribute::l2_bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(attribute::threads_of_multiprocessor == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(attribute::major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(attribute::minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(attribute::registers_of_multiprocessor == CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
static_assert(attribute::shared_optin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(attribute::persisting_l2 == CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
static_assert(attribute::cluster_launch == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
static_assert(function_attribute::max_threads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(function_attribute::shared_bytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(function_attribute::local_bytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(function_attribute::registers == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(function_attribute::max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(function_attribute::nonportable_cluster == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(flag::stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              flag::host_mapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(flag::context_spin == CU_CTX_SCHED_SPIN && flag::event_default == CU_EVENT_DEFAULT);
static_assert(attribute::pageable_access == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
static_assert(attribute::memory_mapping == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(sizeof(MemoryHandle) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(MemoryProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(MemoryProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(MemoryProperties::pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(MemoryProperties::on_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(MemoryAccess::read_and_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == alignof(CUtensorMap));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(launch_attribute::cooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(launch_attribute::cluster_dimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(launch_attribute::programmatic_serialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

}  // namespace cultivar::cuda
#endif

#if __has_include(<cupti.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cupti.h>
#pragma GCC diagnostic pop

namespace cultivar::cuda::cupti {

static_assert(success == CUPTI_SUCCESS && kind_kernel == CUPTI_ACTIVITY_KIND_KERNEL);
static_assert(kind_concurrent_kernel == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
#if CUPTI_API_VERSION >= 130000
using TheirRecord = CUpti_ActivityKernel10;
#else
using TheirRecord = CUpti_ActivityKernel9;
#endif
static_assert(offsetof(KernelRecord, start) == offsetof(TheirRecord, start));
static_assert(offsetof(KernelRecord, end) == offsetof(TheirRecord, end));
static_assert(offsetof(KernelRecord, device) == offsetof(TheirRecord, deviceId));
static_assert(offsetof(KernelRecord, grid) == offsetof(TheirRecord, gridX));
static_assert(offsetof(KernelRecord, name) == offsetof(TheirRecord, name));

}  // namespace cultivar::cuda::cupti
#endif
