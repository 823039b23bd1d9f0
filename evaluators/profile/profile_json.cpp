#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/profile/profile.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

constexpr std::array limits{OccupancyLimit::warps, OccupancyLimit::blocks, OccupancyLimit::registers,
                            OccupancyLimit::shared_memory, OccupancyLimit::does_not_fit};

json from(const Stalls& stalls) {
  json all = json::object();
  for (const auto& [reason, count] : stalls)
    all[reason] = {{"samples", count.samples}, {"exposed", count.exposed}};
  return all;
}

Stalls stalls_from(const json& j) {
  Stalls stalls;
  for (const auto& [reason, count] : j.items())
    stalls[reason] = {count.at("samples").get<std::uint64_t>(), count.at("exposed").get<std::uint64_t>()};
  return stalls;
}

json from(const Occupancy& o) {
  return {{"blocks", o.blocks},
          {"warps", o.warps},
          {"share", o.share},
          {"limit", words_of(o.limit)},
          {"blocks_by_warps", o.by_warps},
          {"blocks_by_count", o.by_blocks},
          {"blocks_by_registers", o.by_registers},
          {"blocks_by_shared_memory", o.by_shared}};
}

Occupancy occupancy_from(const json& j) {
  Occupancy o;
  j.at("blocks").get_to(o.blocks);
  j.at("warps").get_to(o.warps);
  j.at("share").get_to(o.share);
  j.at("blocks_by_warps").get_to(o.by_warps);
  j.at("blocks_by_count").get_to(o.by_blocks);
  j.at("blocks_by_registers").get_to(o.by_registers);
  j.at("blocks_by_shared_memory").get_to(o.by_shared);
  const auto limit = j.at("limit").get<std::string>();
  for (const OccupancyLimit known : limits)
    if (words_of(known) == limit) o.limit = known;
  return o;
}

json from(const KernelProfile& k) {
  json lines = json::array();
  for (const LineStalls& line : k.lines) {
    lines.push_back(
        {{"line", line.line}, {"text", line.text}, {"samples", line.samples}, {"stalls", from(line.stalls)}});
    if (!line.file.empty()) lines.back()["file"] = line.file;
  }
  json counted = json::object();
  for (const auto& [key, value] : k.counters) counted[key] = value;
  return {{"name", k.name},
          {"grid", k.grid},
          {"block", k.block},
          {"cluster", k.cluster},
          {"registers", k.registers},
          {"stack_bytes", k.stack_bytes},
          {"static_shared_bytes", k.static_shared_bytes},
          {"dynamic_shared_bytes", k.dynamic_shared_bytes},
          {"cooperative", k.cooperative},
          {"occupancy", from(k.occupancy)},
          {"waves", k.waves},
          {"counters", counted},
          {"samples", k.samples},
          {"stalls", from(k.stalls)},
          {"lines", lines}};
}

KernelProfile kernel_from(const json& j) {
  KernelProfile k;
  j.at("name").get_to(k.name);
  j.at("grid").get_to(k.grid);
  j.at("block").get_to(k.block);
  j.at("cluster").get_to(k.cluster);
  j.at("registers").get_to(k.registers);
  j.at("stack_bytes").get_to(k.stack_bytes);
  j.at("static_shared_bytes").get_to(k.static_shared_bytes);
  j.at("dynamic_shared_bytes").get_to(k.dynamic_shared_bytes);
  j.at("cooperative").get_to(k.cooperative);
  k.occupancy = occupancy_from(j.at("occupancy"));
  j.at("waves").get_to(k.waves);
  for (const auto& [key, value] : j.at("counters").items()) k.counters[key] = value.get<double>();
  j.at("samples").get_to(k.samples);
  k.stalls = stalls_from(j.at("stalls"));
  for (const json& line : j.at("lines"))
    k.lines.push_back({line.at("line").get<int>(), line.at("text").get<std::string>(),
                       line.at("samples").get<std::uint64_t>(), stalls_from(line.at("stalls")),
                       line.value("file", std::string())});
  return k;
}

}  // namespace

void to_json(json& j, const Profile& p) {
  json kernels = json::array();
  for (const KernelProfile& kernel : p.kernels) kernels.push_back(from(kernel));
  j = {{"target", p.target},
       {"device", p.device},
       {"variant", p.variant},
       {"name", p.kernel_name},
       {"workload", p.workload},
       {"set", p.set},
       {"median_us", p.median_us},
       {"clock_mhz", p.clock_mhz},
       {"temperature_c", p.temperature_c},
       {"power_w", p.power_w},
       {"throttle", p.throttle},
       {"value", p.value},
       {"unit", p.unit},
       {"flops", p.flops},
       {"bytes", p.bytes},
       {"flops_us", p.flops_us},
       {"bytes_us", p.bytes_us},
       {"resources", json(p.resources)},
       {"kernels", kernels},
       {"passes", p.passes},
       {"replay", p.replay},
       {"dropped_samples", p.dropped_samples},
       {"missing", p.missing}};
}

void from_json(const json& j, Profile& p) {
  j.at("target").get_to(p.target);
  j.at("device").get_to(p.device);
  j.at("variant").get_to(p.variant);
  j.at("name").get_to(p.kernel_name);
  j.at("workload").get_to(p.workload);
  j.at("set").get_to(p.set);
  j.at("median_us").get_to(p.median_us);
  j.at("clock_mhz").get_to(p.clock_mhz);
  j.at("temperature_c").get_to(p.temperature_c);
  j.at("power_w").get_to(p.power_w);
  j.at("throttle").get_to(p.throttle);
  j.at("value").get_to(p.value);
  j.at("unit").get_to(p.unit);
  j.at("flops").get_to(p.flops);
  j.at("bytes").get_to(p.bytes);
  j.at("flops_us").get_to(p.flops_us);
  j.at("bytes_us").get_to(p.bytes_us);
  j.at("resources").get_to(p.resources);
  p.kernels.clear();
  for (const json& kernel : j.at("kernels")) p.kernels.push_back(kernel_from(kernel));
  j.at("passes").get_to(p.passes);
  j.at("replay").get_to(p.replay);
  j.at("dropped_samples").get_to(p.dropped_samples);
  j.at("missing").get_to(p.missing);
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
