// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "evaluators/profile/profile.hpp"
#include "evaluators/system/json_fields.hpp"

namespace cultivar {

CULTIVAR_JSON_ENUM(OccupancyLimit, "the number of warps", "the number of blocks", "registers",
                   "shared memory", "a block that does not fit")
CULTIVAR_JSON(Occupancy, blocks, warps, share, limit, blocks_by_warps, blocks_by_count, blocks_by_registers,
              blocks_by_shared_memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StallCount, samples, exposed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LineStalls, line, text, samples, stalls, file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelProfile, name, grid, block, cluster, registers, stack_bytes,
                                   static_shared_bytes, dynamic_shared_bytes, cooperative, occupancy, waves,
                                   counters, samples, stalls, lines)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CodeLine, line, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HotLoop, function, file, first_line, last_line, instructions,
                                                loads, stores, vectors, widest_bits, scalars, calls, code,
                                                fused, depth)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Traffic, read_bytes, written_bytes, loads_us, stores_us, both_us,
                                   streamed_us)
CULTIVAR_JSON_PART(Profile, target, device, variant, name, workload, set, median_us, clock_mhz, temperature_c,
                   power_w, throttle, value, unit, flops, bytes, flops_us, bytes_us, resources, kernels,
                   passes, replay, dropped_samples, missing)

void to_json(nlohmann::json& j, const Profile& profile) {
  write_fields(j, profile);
  j["loops"] = profile.loops;
  j["traffic"] = profile.traffic;
}

void from_json(const nlohmann::json& j, Profile& profile) {
  read_fields(j, profile);
  // Records of earlier versions lack these.
  profile.loops = j.value("loops", std::vector<HotLoop>());
  profile.traffic = j.value("traffic", Traffic{});
}

void merge(Profile& into, const Profile& part) {
  if (into.kernels.empty()) into.kernels = part.kernels;
  for (std::size_t i = 0; i < std::min(into.kernels.size(), part.kernels.size()); ++i) {
    const KernelProfile& theirs = part.kernels[i];
    KernelProfile& ours = into.kernels[i];
    if (!theirs.counters.empty()) ours.counters = theirs.counters;
    if (theirs.samples == 0) continue;
    ours.samples = theirs.samples;
    ours.stalls = theirs.stalls;
    ours.lines = theirs.lines;
  }
  into.passes = std::max(into.passes, part.passes);
  if (!part.replay.empty()) into.replay = part.replay;
  into.dropped_samples += part.dropped_samples;
  for (const std::string& why : part.missing)
    if (std::find(into.missing.begin(), into.missing.end(), why) == into.missing.end())
      into.missing.push_back(why);
}

}  // namespace cultivar
