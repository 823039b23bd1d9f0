// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/device.hpp"

#include <array>

namespace cultivar {

std::string_view name_of(Fault::Kind kind) {
  static constexpr std::array<std::string_view, 15> names{
      "load_failed",   "crashed",          "timed_out",     "forbidden_call", "guard_overwritten",
      "input_changed", "idle_activity",    "out_of_memory", "launch_failed",  "too_short",
      "unsupported",   "contender_failed", "killed",        "memory_limit",   "memory_held"};
  return names.at(static_cast<std::size_t>(kind));
}

Plan with_choices(Plan plan, const LaunchChoices& chosen) {
  for (PlannedKernel& kernel : plan.kernels)
    if (const auto found = chosen.find(kernel.kernel); found != chosen.end())
      for (const auto& [key, values] : found->second) {
        kernel.launch.set(key, {});
        for (const std::int64_t value : values) kernel.launch.add(key, value);
      }
  return plan;
}

tl::expected<std::unique_ptr<Session>, Fault> Device::open_contender(const ContenderFile&,
                                                                     const ContenderSettings&, const Task&,
                                                                     const Workload&) {
  return tl::make_unexpected(
      Fault{Fault::Kind::unsupported, "this device does not support contender libraries"});
}

}  // namespace cultivar
