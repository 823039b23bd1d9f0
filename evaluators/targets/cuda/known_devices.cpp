#include "evaluators/targets/cuda/known_devices.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace cultivar
