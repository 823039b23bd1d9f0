// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/visible_gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar {

namespace {

std::vector<std::string> entries_of(const std::string& listed) {
  std::vector<std::string> entries;
  std::istringstream text(listed);
  for (std::string entry; std::getline(text, entry, ',');) {
    const std::size_t first = entry.find_first_not_of(' '), last = entry.find_last_not_of(' ');
    // The driver stops at the first invalid entry: "0,-1,2" shows one GPU.
    if (first == entry.npos || entry[first] == '-') break;
    entries.push_back(entry.substr(first, last - first + 1));
  }
  return entries;
}

}  // namespace

Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index) {
  if (!listed) return std::to_string(index);
  const std::vector<std::string> entries = entries_of(*listed);
  if (index < 0 || static_cast<std::size_t>(index) >= entries.size())
    return failure(ErrorKind::missing, "find the GPU",
                   fmt::format("CUDA_VISIBLE_DEVICES is '{}', which shows {} GPU{}; there is no "
                               "GPU number {} (numbers start at 0)",
                               *listed, entries.size(), entries.size() == 1 ? "" : "s", index));
  return entries[static_cast<std::size_t>(index)];
}

int visible_gpus(const std::optional<std::string>& listed) {
  if (listed) return static_cast<int>(entries_of(*listed).size());
  std::string ignored;
  void* const nvml =
      cuda::open_library({"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"}, &ignored);
  if (nvml == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)()>(::dlsym(nvml, "nvmlInit_v2"));
  const auto count = reinterpret_cast<int (*)(unsigned*)>(::dlsym(nvml, "nvmlDeviceGetCount_v2"));
  unsigned gpus = 0;
  return init != nullptr && count != nullptr && init() == 0 && count(&gpus) == 0 ? static_cast<int>(gpus) : 0;
}

}  // namespace cultivar
