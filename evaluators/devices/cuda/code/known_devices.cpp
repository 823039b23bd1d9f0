// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/known_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cultivar {

const std::vector<KnownDevice>& known_devices() {
  // SXM cards, as cuDeviceGetAttribute reports them.
  static const std::vector<KnownDevice> devices{{"h100",
                                                 "sm_90a",
                                                 {{"num_sms", 132},
                                                  {"smem_max", 232448},
                                                  {"l2_bytes", 52428800},
                                                  {"registers_max", 65536},
                                                  {"threads_max", 2048},
                                                  {"compute_capability", 90}}},
                                                {"h200",
                                                 "sm_90a",
                                                 {{"num_sms", 132},
                                                  {"smem_max", 232448},
                                                  {"l2_bytes", 62914560},
                                                  {"registers_max", 65536},
                                                  {"threads_max", 2048},
                                                  {"compute_capability", 90}}}};
  return devices;
}

const KnownDevice* known_device(std::string_view name) {
  const auto& all = known_devices();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& d) { return d.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string architecture_of(int compute_capability) {
  return fmt::format("sm_{}{}", compute_capability, compute_capability >= 90 ? "a" : "");
}

std::string trouble_with_architecture(std::string_view name) {
  const std::string_view number = name.substr(std::min<std::size_t>(3, name.size()));
  int capability = 0;
  const auto [end, trouble] = std::from_chars(number.data(), number.data() + number.size(), capability);
  const std::string_view suffix(end, static_cast<std::size_t>(name.data() + name.size() - end));
  const bool written = name.starts_with("sm_") && trouble == std::errc() && capability > 0 &&
                       capability < 1000 && number.front() != '0' &&
                       (suffix.empty() || suffix == "a" || suffix == "f");
  if (!written) return fmt::format("'{}' is not an architecture; write it as in sm_90a", name);
  if (capability < 80)
    return fmt::format("'{}' is too old; compute capability 8.0 (sm_80) or later is required", name);
  const int least = suffix == "a" ? 90 : suffix == "f" ? 100 : 0;
  if (capability < least)
    return fmt::format("'{}' does not exist: the suffix {} exists from sm_{} on; write sm_{}", name, suffix,
                       least, capability);
  return {};
}

std::string without_hopper(std::string_view architecture) {
  if (architecture == "sm_90a") return {};
  return fmt::format(
      "{} has no wgmma: the seeds cuda_wgmma, cuda_persistent and cuda_skinny and the contender "
      "flash_attention_3 are for sm_90a; the other seeds compile for it, and none has run on it",
      architecture);
}

}  // namespace cultivar
