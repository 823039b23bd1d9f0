// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/target/traits.hpp"

namespace cultivar {

std::optional<Finding> several_kernels(const Profile& p) {
  double all = 0.0;
  for (const KernelProfile& kernel : p.kernels)
    if (const auto ns = kernel.counters.find("duration_ns"); ns != kernel.counters.end()) all += ns->second;
  const KernelProfile* kernel = main_kernel(p);
  if (p.kernels.size() < 2 || all <= 0.0 || kernel == nullptr) return std::nullopt;
  const double others = 1.0 - kernel->counters.at("duration_ns") / all;
  if (others < least_noted_share) return std::nullopt;
  return Finding{
      "several_kernels", others,
      fmt::format("{:.0f} % of the time goes to the plan's other kernels; this report is about '{}'",
                  100.0 * others, kernel->name)};
}

std::optional<Finding> slowed_clock(const Profile& p) {
  if (p.throttle.empty()) return std::nullopt;
  std::string words = fmt::format("the clock was slowed ({})", p.throttle);
  if (p.clock_mhz > 0.0) words += fmt::format(": {:.0f} MHz", p.clock_mhz);
  if (p.power_w > 0.0) words += fmt::format(" at {:.0f} W and {:.0f} C", p.power_w, p.temperature_c);
  return Finding{"clock", 0.1, words + ". Less work or less data movement lets the clock rise again"};
}

std::optional<Finding> near_the_roof(const Profile& p) {
  if (p.floor_us() <= 0.0 || p.median_us <= 0.0 || p.floor_us() / p.median_us < 0.85) return std::nullopt;
  return Finding{
      "roofline", p.floor_us() / p.median_us,
      "on this workload the time is within 15 % of this device's measured peak: only less work makes it "
      "faster here"};
}

const ProfileWords& words_for(const Profile& profile) {
  static constexpr Rule common[] = {
      {"roofline", near_the_roof}, {"several_kernels", several_kernels}, {"clock", slowed_clock}};
  static const ProfileWords plain{.rules = common};
  const Target target = find_target(profile.target);
  return target == nullptr || target->profile == nullptr ? plain : *target->profile;
}

StallReasonWords ProfileWords::of_stall(std::string_view reason) const {
  const auto found = std::ranges::find(stalls, reason, &StallReasonWords::reason);
  return found == stalls.end() ? StallReasonWords{reason, reason, ""} : *found;
}

const KernelProfile* main_kernel(const Profile& p) {
  const KernelProfile* main = nullptr;
  const auto weight = [](const KernelProfile& kernel) {
    const auto ns = kernel.counters.find("duration_ns");
    return ns == kernel.counters.end() ? static_cast<double>(kernel.samples) : ns->second;
  };
  for (const KernelProfile& kernel : p.kernels)
    if (main == nullptr || weight(kernel) > weight(*main)) main = &kernel;
  return main;
}

std::vector<StallShare> stall_shares(const KernelProfile& kernel) {
  std::vector<StallShare> shares;
  double exposed = 0.0, samples = 0.0, ratios = 0.0;
  const auto counts = [](std::string_view reason) {
    return reason != "selected" && reason != "not_selected";
  };
  for (const auto& [reason, count] : kernel.stalls) {
    if (!counts(reason)) continue;
    exposed += static_cast<double>(count.exposed);
    samples += static_cast<double>(count.samples);
  }
  constexpr std::string_view prefix = "stall_";
  for (const auto& [key, value] : kernel.counters)
    if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size()))) ratios += value;
  if (exposed + samples > 0.0) {
    for (const auto& [reason, count] : kernel.stalls)
      if (counts(reason))
        shares.push_back({reason,
                          exposed > 0.0 ? static_cast<double>(count.exposed) / exposed
                                        : static_cast<double>(count.samples) / samples,
                          exposed > 0.0});
  } else if (ratios > 0.0) {
    for (const auto& [key, value] : kernel.counters)
      if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size())))
        shares.push_back({key.substr(prefix.size()), value / ratios, false});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const StallShare& a, const StallShare& b) { return a.share > b.share; });
  return shares;
}

}  // namespace cultivar
