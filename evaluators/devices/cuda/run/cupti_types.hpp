// SPDX-License-Identifier: Apache-2.0
// What Cultivar uses of CUPTI's Profiler Host and Range Profiler APIs, declared here
// (cupti_sampling_types.hpp has PC sampling) so that everything builds without a toolkit.
// cupti_types_check.cpp compares these declarations with NVIDIA's headers if CMake finds them. Every
// parameter block begins with its own size, as CUPTI requires.
#pragma once

#include <cstddef>
#include <cstdint>

#include "evaluators/devices/cuda/run/driver_types.hpp"

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

}  // namespace cultivar::cuda::cupti
