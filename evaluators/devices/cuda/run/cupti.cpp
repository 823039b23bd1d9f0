// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/cupti.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {
namespace {

// CUPTI loads these libraries by bare name, which the system's search path may not resolve.
void load_companions(void* library) {
  Dl_info place;
  void* const symbol = dlsym(library, "cuptiGetResultString");
  if (symbol == nullptr || dladdr(symbol, &place) == 0) return;
  std::error_code ignored;
  const auto folder = std::filesystem::canonical(place.dli_fname, ignored).parent_path();
  for (const char* name : {"libnvperf_host.so", "libnvperf_target.so"})
    (void)dlopen((folder / name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

Expected<const Cupti*> loaded_cupti() {
  std::string why;
  void* const library = open_cupti(&why);
  if (library == nullptr)
    return failure(ErrorKind::missing, "load CUPTI",
                   fmt::format("counters and samples need CUPTI ({}); install the CUDA "
                               "toolkit's package cuda-cupti, 12.6 or later",
                               why));
  load_companions(library);
  static Cupti cupti;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing += fmt::format(" {}", name);
  };
  find(cupti.GetResultString, "cuptiGetResultString");
  find(cupti.ProfilerInitialize, "cuptiProfilerInitialize");
  find(cupti.DeviceGetChipName, "cuptiDeviceGetChipName");
  find(cupti.ProfilerGetCounterAvailability, "cuptiProfilerGetCounterAvailability");
  find(cupti.ProfilerHostInitialize, "cuptiProfilerHostInitialize");
  find(cupti.ProfilerHostDeinitialize, "cuptiProfilerHostDeinitialize");
  find(cupti.ProfilerHostGetSupportedChips, "cuptiProfilerHostGetSupportedChips");
  find(cupti.ProfilerHostGetMetricProperties, "cuptiProfilerHostGetMetricProperties");
  find(cupti.ProfilerHostConfigAddMetrics, "cuptiProfilerHostConfigAddMetrics");
  find(cupti.ProfilerHostGetConfigImageSize, "cuptiProfilerHostGetConfigImageSize");
  find(cupti.ProfilerHostGetConfigImage, "cuptiProfilerHostGetConfigImage");
  find(cupti.ProfilerHostGetNumOfPasses, "cuptiProfilerHostGetNumOfPasses");
  find(cupti.ProfilerHostEvaluateToGpuValues, "cuptiProfilerHostEvaluateToGpuValues");
  find(cupti.RangeProfilerEnable, "cuptiRangeProfilerEnable");
  find(cupti.RangeProfilerDisable, "cuptiRangeProfilerDisable");
  find(cupti.RangeProfilerStart, "cuptiRangeProfilerStart");
  find(cupti.RangeProfilerStop, "cuptiRangeProfilerStop");
  find(cupti.RangeProfilerSetConfig, "cuptiRangeProfilerSetConfig");
  find(cupti.RangeProfilerDecodeData, "cuptiRangeProfilerDecodeData");
  find(cupti.RangeProfilerGetCounterDataSize, "cuptiRangeProfilerGetCounterDataSize");
  find(cupti.RangeProfilerCounterDataImageInitialize, "cuptiRangeProfilerCounterDataImageInitialize");
  find(cupti.RangeProfilerGetCounterDataInfo, "cuptiRangeProfilerGetCounterDataInfo");
  find(cupti.PCSamplingEnable, "cuptiPCSamplingEnable");
  find(cupti.PCSamplingDisable, "cuptiPCSamplingDisable");
  find(cupti.PCSamplingStart, "cuptiPCSamplingStart");
  find(cupti.PCSamplingStop, "cuptiPCSamplingStop");
  find(cupti.PCSamplingGetData, "cuptiPCSamplingGetData");
  find(cupti.PCSamplingGetNumStallReasons, "cuptiPCSamplingGetNumStallReasons");
  find(cupti.PCSamplingGetStallReasons, "cuptiPCSamplingGetStallReasons");
  find(cupti.PCSamplingSetConfigurationAttribute, "cuptiPCSamplingSetConfigurationAttribute");
  find(cupti.GetSassToSourceCorrelation, "cuptiGetSassToSourceCorrelation");
  if (!missing.empty())
    return failure(
        ErrorKind::missing, "load CUPTI",
        fmt::format("CUPTI lacks{}; install the CUDA toolkit's package cuda-cupti, 12.6 or later", missing));
  return &cupti;
}

}  // namespace

void* open_cupti(std::string* why) {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::string beside = program / "cuda/lib/libcupti.so.13";
  void* const library = open_library(
      {beside.c_str(), "libcupti.so.13", "libcupti.so.12", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
       "/usr/local/cuda/lib64/libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"},
      why);
  if (library != nullptr) why->clear();
  return library;
}

Expected<const Cupti*> load_cupti() {
  static const Expected<const Cupti*> once = loaded_cupti();
  return once;
}

Expected<void> Cupti::check(int code, const char* call) const {
  if (code == cupti::success) return {};
  const char* name = nullptr;
  if (GetResultString(code, &name) != cupti::success || name == nullptr) name = "an unknown error";
  const std::string words = fmt::format("cupti{}: {} ({})", call, name, code);
  if (code == cupti::insufficient_privileges || code == cupti::virtual_insufficient_privileges)
    return failure(ErrorKind::denied, "profile",
                   fmt::format("this driver restricts counters to administrators ({}, ERR_NVGPUCTRPERM): run "
                               "as root, or let all users profile with `options nvidia "
                               "NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and a reboot; in a "
                               "container, add the capability SYS_ADMIN; in a virtual machine, the host must "
                               "allow profiling",
                               words));
  return failure(call, words);
}

}  // namespace cultivar::cuda
