// SPDX-License-Identifier: Apache-2.0
// CUPTI's profiling functions, loaded at run time, with error messages for users who want a profile.
#pragma once

#include <string>

#include "evaluators/devices/cuda/run/cupti_sampling_types.hpp"
#include "evaluators/devices/cuda/run/cupti_types.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar::cuda {

// Members are the functions' names without the prefix `cupti`.
struct Cupti {
  int (*GetResultString)(int, const char**) = nullptr;
  int (*ProfilerInitialize)(cupti::InitializeParams*) = nullptr;
  int (*DeviceGetChipName)(cupti::ChipNameParams*) = nullptr;
  int (*ProfilerGetCounterAvailability)(cupti::AvailabilityParams*) = nullptr;
  int (*ProfilerHostInitialize)(cupti::HostInitializeParams*) = nullptr;
  int (*ProfilerHostDeinitialize)(cupti::HostDeinitializeParams*) = nullptr;
  int (*ProfilerHostGetSupportedChips)(cupti::SupportedChipsParams*) = nullptr;
  int (*ProfilerHostGetMetricProperties)(cupti::MetricPropertiesParams*) = nullptr;
  int (*ProfilerHostConfigAddMetrics)(cupti::AddMetricsParams*) = nullptr;
  int (*ProfilerHostGetConfigImageSize)(cupti::ConfigSizeParams*) = nullptr;
  int (*ProfilerHostGetConfigImage)(cupti::ConfigImageParams*) = nullptr;
  int (*ProfilerHostGetNumOfPasses)(cupti::PassesParams*) = nullptr;
  int (*ProfilerHostEvaluateToGpuValues)(cupti::EvaluateParams*) = nullptr;
  int (*RangeProfilerEnable)(cupti::RangeEnableParams*) = nullptr;
  int (*RangeProfilerDisable)(cupti::RangeObjectParams*) = nullptr;
  int (*RangeProfilerStart)(cupti::RangeObjectParams*) = nullptr;
  int (*RangeProfilerStop)(cupti::RangeStopParams*) = nullptr;
  int (*RangeProfilerSetConfig)(cupti::RangeConfigParams*) = nullptr;
  int (*RangeProfilerDecodeData)(cupti::RangeDecodeParams*) = nullptr;
  int (*RangeProfilerGetCounterDataSize)(cupti::RangeDataSizeParams*) = nullptr;
  int (*RangeProfilerCounterDataImageInitialize)(cupti::RangeDataInitializeParams*) = nullptr;
  int (*RangeProfilerGetCounterDataInfo)(cupti::RangeDataInfoParams*) = nullptr;
  int (*PCSamplingEnable)(cupti::SamplingParams*) = nullptr;
  int (*PCSamplingDisable)(cupti::SamplingParams*) = nullptr;
  int (*PCSamplingStart)(cupti::SamplingParams*) = nullptr;
  int (*PCSamplingStop)(cupti::SamplingParams*) = nullptr;
  int (*PCSamplingGetData)(cupti::SamplingGetDataParams*) = nullptr;
  int (*PCSamplingGetNumStallReasons)(cupti::ReasonCountParams*) = nullptr;
  int (*PCSamplingGetStallReasons)(cupti::ReasonsParams*) = nullptr;
  int (*PCSamplingSetConfigurationAttribute)(cupti::SamplingConfigParams*) = nullptr;
  int (*GetSassToSourceCorrelation)(cupti::CorrelationParams*) = nullptr;

  // Success, or an Error with the remedy: kind denied when the driver restricts counters to administrators;
  // otherwise the name of the call.
  Expected<void> check(int code, const char* call) const;
};

// The library itself; on failure nullptr, with the reason in `why`.
void* open_cupti(std::string* why);

// Loaded once and never unloaded. Error kind missing if CUPTI is absent or older than CUDA 12.6, the first
// version with the Range Profiler API.
Expected<const Cupti*> load_cupti();

}  // namespace cultivar::cuda
