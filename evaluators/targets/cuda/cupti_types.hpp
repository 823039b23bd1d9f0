// What Cultivar uses of CUPTI's Profiler Host, Range Profiler and PC Sampling APIs, declared here so that
// everything builds without a toolkit. cupti_types_check.cpp compares these declarations with NVIDIA's
// headers if CMake finds them. Every parameter block begins with its own size, as CUPTI requires.
#pragma once

#include <cstddef>
#include <cstdint>

#include "evaluators/targets/cuda/driver_types.hpp"

namespace cultivar::cuda::cupti {

inline constexpr int out_of_memory = 8, not_supported = 27, insufficient_privileges = 35,
                     virtual_insufficient_privileges = 40;

using HostObject = struct HostObjectTag*;
using RangeObject = struct RangeObjectTag*;

template <class Params>
Params params() {
  Params block{};
  block.size = Params::bytes;
  return block;
}

struct InitializeParams {  // CUpti_Profiler_Initialize_Params
  std::size_t size;
  void* reserved;
  static constexpr std::size_t bytes = 16;
};
struct ChipNameParams {  // CUpti_Device_GetChipName_Params
  std::size_t size;
  void* reserved;
  std::size_t device;
  const char* chip;
  static constexpr std::size_t bytes = 32;
};
struct AvailabilityParams {  // CUpti_Profiler_GetCounterAvailability_Params
  std::size_t size;
  void* reserved;
  Context context;
  std::size_t image_bytes;
  std::uint8_t* image;
  static constexpr std::size_t bytes = 40;
};

struct HostInitializeParams {  // CUpti_Profiler_Host_Initialize_Params
  std::size_t size;
  void* reserved;
  int profiler;  // 0: range profiler
  const char* chip;
  const std::uint8_t* availability;
  HostObject host;
  static constexpr std::size_t bytes = 48;
};
struct HostDeinitializeParams {
  std::size_t size;
  void* reserved;
  HostObject host;
  static constexpr std::size_t bytes = 24;
};
struct SupportedChipsParams {
  std::size_t size;
  void* reserved;
  std::size_t count;
  const char* const* chips;
  static constexpr std::size_t bytes = 32;
};
struct MetricPropertiesParams {
  std::size_t size;
  void* reserved;
  HostObject host;
  const char* metric;
  const char *description, *unit, *dimension;
  int type;
  static constexpr std::size_t bytes = 60;
};
struct AddMetricsParams {
  std::size_t size;
  void* reserved;
  HostObject host;
  const char** metrics;
  std::size_t count;
  static constexpr std::size_t bytes = 40;
};
struct ConfigSizeParams {
  std::size_t size;
  void* reserved;
  HostObject host;
  std::size_t image_bytes;
  static constexpr std::size_t bytes = 32;
};
struct ConfigImageParams {
  std::size_t size;
  void* reserved;
  HostObject host;
  std::size_t image_bytes;
  std::uint8_t* image;
  static constexpr std::size_t bytes = 40;
};
struct PassesParams {
  std::size_t size;
  void* reserved;
  std::size_t image_bytes;
  std::uint8_t* image;
  std::size_t passes;
  static constexpr std::size_t bytes = 40;
};
struct EvaluateParams {  // CUpti_Profiler_Host_EvaluateToGpuValues_Params
  std::size_t size;
  void* reserved;
  HostObject host;
  const std::uint8_t* data;
  std::size_t data_bytes, range;
  const char** metrics;
  std::size_t count;
  double* values;
  static constexpr std::size_t bytes = 72;
};

struct RangeObjectParams {  // Enable_Params has the context before the object
  std::size_t size;
  void* reserved;
  RangeObject object;
  static constexpr std::size_t bytes = 24;
};
struct RangeEnableParams {
  std::size_t size;
  void* reserved;
  Context context;
  RangeObject object;
  static constexpr std::size_t bytes = 32;
};
struct RangeStopParams {
  std::size_t size;
  void* reserved;
  RangeObject object;
  std::size_t pass, nesting;
  std::uint8_t all_submitted;
  static constexpr std::size_t bytes = 41;
};
struct RangeDecodeParams {
  std::size_t size;
  void* reserved;
  RangeObject object;
  std::size_t dropped;
  static constexpr std::size_t bytes = 32;
};
struct RangeDataSizeParams {
  std::size_t size;
  void* reserved;
  RangeObject object;
  const char** metrics;
  std::size_t count, most_ranges;
  std::uint32_t most_nodes;
  std::size_t data_bytes;
  static constexpr std::size_t bytes = 64;
};
struct RangeDataInitializeParams {
  std::size_t size;
  void* reserved;
  RangeObject object;
  std::size_t data_bytes;
  std::uint8_t* data;
  static constexpr std::size_t bytes = 40;
};
struct RangeDataInfoParams {
  std::size_t size;
  void* reserved;
  const std::uint8_t* data;
  std::size_t data_bytes, ranges;
  static constexpr std::size_t bytes = 40;
};
inline constexpr int auto_range = 1;                      // CUpti_ProfilerRange
inline constexpr int kernel_replay = 2, user_replay = 3;  // CUpti_ProfilerReplayMode
struct RangeConfigParams {                                // CUpti_RangeProfiler_SetConfig_Params
  std::size_t size;
  void* reserved;
  RangeObject object;
  std::size_t config_bytes;
  const std::uint8_t* config;
  std::size_t data_bytes;
  std::uint8_t* data;
  int range, replay;
  std::size_t ranges_per_pass;
  std::uint16_t nesting_levels, least_nesting;
  std::size_t pass;
  std::uint16_t target_nesting;
  static constexpr std::size_t bytes = 90;
};

// --- PC sampling ---

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
