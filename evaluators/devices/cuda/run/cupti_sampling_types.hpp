// SPDX-License-Identifier: Apache-2.0
// What Cultivar uses of CUPTI's PC Sampling API, declared as in cupti_types.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "evaluators/devices/cuda/run/driver_types.hpp"

namespace cultivar::cuda::cupti {

inline constexpr std::size_t stall_name_bytes = 128;
struct StallReason {
  std::uint32_t index, samples;
};
struct PcData {  // CUpti_PCSamplingPCData
  std::size_t size;
  std::uint64_t cubin_crc, offset;
  std::uint32_t function_index, pad;
  char* function;
  std::size_t reason_count;
  StallReason* reasons;
  std::uint32_t correlation;
};
struct SamplingData {  // CUpti_PCSamplingData
  std::size_t size, capacity;
  std::uint64_t total, dropped;
  std::size_t count, remaining;
  std::uint64_t range;
  PcData* pcs;
  std::uint64_t others;
  std::uint8_t buffer_full;
};
struct SamplingParams {  // enable, disable, start and stop
  std::size_t size;
  void* reserved;
  Context context;
  static constexpr std::size_t bytes = 24;
};
struct SamplingGetDataParams {
  std::size_t size;
  void* reserved;
  Context context;
  void* data;
  static constexpr std::size_t bytes = 32;
};
struct ReasonCountParams {
  std::size_t size;
  void* reserved;
  Context context;
  std::size_t* count;
  static constexpr std::size_t bytes = 32;
};
struct ReasonsParams {
  std::size_t size;
  void* reserved;
  Context context;
  std::size_t count;
  std::uint32_t* indices;
  char** names;
  static constexpr std::size_t bytes = 48;
};
inline constexpr int sampling_period = 1, start_stop_control = 6, sampling_data_buffer = 8;
struct SamplingAttribute {  // CUpti_PCSamplingConfigurationInfo
  int which, status;
  union {
    std::uint64_t words[3];
    std::uint32_t number;
    void* pointer;
  };
};
struct SamplingConfigParams {
  std::size_t size;
  void* reserved;
  Context context;
  std::size_t count;
  SamplingAttribute* attributes;
  static constexpr std::size_t bytes = 40;
};
struct CorrelationParams {  // CUpti_GetSassToSourceCorrelationParams
  std::size_t size;
  const void* cubin;
  const char* function;
  std::size_t cubin_bytes;
  std::uint32_t line;
  std::uint64_t offset;
  char *file, *folder;
  static constexpr std::size_t bytes = 64;
};

}  // namespace cultivar::cuda::cupti
