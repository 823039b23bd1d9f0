// SPDX-License-Identifier: Apache-2.0
// Compares the declarations of cupti_types.hpp with NVIDIA's headers if they are found; otherwise this file
// is empty.
#include "evaluators/devices/cuda/run/cupti_sampling_types.hpp"
#include "evaluators/devices/cuda/run/cupti_types.hpp"

#if __has_include(<cupti_range_profiler.h>) && __has_include(<cupti_profiler_host.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#pragma GCC diagnostic pop

namespace cultivar::cuda::cupti {

static_assert(out_of_memory == CUPTI_ERROR_OUT_OF_MEMORY && not_supported == CUPTI_ERROR_NOT_SUPPORTED);
static_assert(insufficient_privileges == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(virtual_insufficient_privileges == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
static_assert(auto_range == CUPTI_AutoRange && kernel_replay == CUPTI_KernelReplay &&
              user_replay == CUPTI_UserReplay && CUPTI_PROFILER_TYPE_RANGE_PROFILER == 0);
static_assert(stall_name_bytes == CUPTI_STALL_REASON_STRING_SIZE);

static_assert(InitializeParams::bytes == CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
static_assert(ChipNameParams::bytes == CUpti_Device_GetChipName_Params_STRUCT_SIZE);
static_assert(AvailabilityParams::bytes == CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
static_assert(HostInitializeParams::bytes == CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
static_assert(offsetof(HostInitializeParams, chip) ==
              offsetof(CUpti_Profiler_Host_Initialize_Params, pChipName));
static_assert(HostDeinitializeParams::bytes == CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
static_assert(SupportedChipsParams::bytes == CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE);
static_assert(MetricPropertiesParams::bytes == CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE);
static_assert(AddMetricsParams::bytes == CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
static_assert(ConfigSizeParams::bytes == CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
static_assert(ConfigImageParams::bytes == CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
static_assert(PassesParams::bytes == CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
static_assert(offsetof(PassesParams, image) ==
              offsetof(CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage));
static_assert(EvaluateParams::bytes == CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
static_assert(offsetof(EvaluateParams, metrics) ==
              offsetof(CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames));

static_assert(RangeObjectParams::bytes == CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
static_assert(RangeObjectParams::bytes == CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
static_assert(RangeEnableParams::bytes == CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
static_assert(RangeStopParams::bytes == CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
static_assert(offsetof(RangeStopParams, all_submitted) ==
              offsetof(CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted));
static_assert(RangeDecodeParams::bytes == CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
static_assert(RangeDataSizeParams::bytes == CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
static_assert(offsetof(RangeDataSizeParams, most_nodes) ==
              offsetof(CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes));
static_assert(RangeDataInitializeParams::bytes ==
              CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
static_assert(RangeDataInfoParams::bytes == CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
static_assert(RangeConfigParams::bytes == CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
static_assert(offsetof(RangeConfigParams, range) == offsetof(CUpti_RangeProfiler_SetConfig_Params, range));
static_assert(offsetof(RangeConfigParams, replay) ==
              offsetof(CUpti_RangeProfiler_SetConfig_Params, replayMode));
static_assert(offsetof(RangeConfigParams, ranges_per_pass) ==
              offsetof(CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass));
static_assert(offsetof(RangeConfigParams, pass) == offsetof(CUpti_RangeProfiler_SetConfig_Params, passIndex));

static_assert(sizeof(StallReason) == sizeof(CUpti_PCSamplingStallReason));
static_assert(sizeof(PcData) == sizeof(CUpti_PCSamplingPCData));
static_assert(offsetof(PcData, function) == offsetof(CUpti_PCSamplingPCData, functionName));
static_assert(offsetof(PcData, reasons) == offsetof(CUpti_PCSamplingPCData, stallReason));
static_assert(sizeof(SamplingData) == sizeof(CUpti_PCSamplingData));
static_assert(offsetof(SamplingData, pcs) == offsetof(CUpti_PCSamplingData, pPcData));
static_assert(offsetof(SamplingData, buffer_full) == offsetof(CUpti_PCSamplingData, hardwareBufferFull));
static_assert(SamplingParams::bytes == CUpti_PCSamplingEnableParamsSize);
static_assert(SamplingParams::bytes == CUpti_PCSamplingStartParamsSize);
static_assert(SamplingGetDataParams::bytes == CUpti_PCSamplingGetDataParamsSize);
static_assert(ReasonCountParams::bytes == CUpti_PCSamplingGetNumStallReasonsParamsSize);
static_assert(ReasonsParams::bytes == CUpti_PCSamplingGetStallReasonsParamsSize);
static_assert(sampling_period == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD);
static_assert(start_stop_control == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL);
static_assert(sampling_data_buffer == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER);
static_assert(sizeof(SamplingAttribute) == sizeof(CUpti_PCSamplingConfigurationInfo));
static_assert(offsetof(SamplingAttribute, words) ==
              offsetof(CUpti_PCSamplingConfigurationInfo, attributeData));
static_assert(SamplingConfigParams::bytes == CUpti_PCSamplingConfigurationInfoParamsSize);
static_assert(CorrelationParams::bytes == CUpti_GetSassToSourceCorrelationParamsSize);
static_assert(offsetof(CorrelationParams, offset) ==
              offsetof(CUpti_GetSassToSourceCorrelationParams, pcOffset));

}  // namespace cultivar::cuda::cupti
#endif
