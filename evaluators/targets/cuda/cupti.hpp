// CUPTI's profiling functions, loaded at run time, and what its errors mean for whoever wants a profile.
#pragma once

#include <string>

#include "evaluators/error.hpp"
#include "evaluators/targets/cuda/cupti_types.hpp"

namespace cultivar::cuda {

// Under their names without `cupti`.
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

  // Success, or what to do: stage "permission" when the driver keeps its counters for administrators, else
  // the call's name.
  Expected<void> check(int code, const char* call) const;
};

// The library itself; nullptr and why not.
void* open_cupti(std::string* why);

// Loaded once and never unloaded; stage "missing" when there is none, or it is older than CUDA 12.6, whose is
// the first with the Range Profiler API.
Expected<const Cupti*> load_cupti();

}  // namespace cultivar::cuda
