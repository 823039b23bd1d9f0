// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <thread>

#include "evaluators/devices/opencl/device.hpp"
#include "evaluators/devices/opencl/launcher.hpp"
#include "evaluators/devices/opencl/oclgrind.hpp"
#include "evaluators/system/cores.hpp"

namespace cultivar {
namespace {

using Form = LaunchKey::Form;

std::optional<LaunchTrouble> launch_trouble(const LaunchNumbers& launch, const Facts& facts) {
  const auto global = launch.three("global"), local = launch.three("local");
  for (std::size_t i = 0; i < 3; ++i)
    if (global[i] % local[i] != 0)
      return LaunchTrouble{
          fmt::format("global[{}]", i),
          fmt::format("{} is not a multiple of the group's {} (round_up it)", global[i], local[i])};
  const double items = static_cast<double>(local[0]) * local[1] * local[2];
  if (const auto most = facts.find("group_max"); most != facts.end() && items > most->second)
    return LaunchTrouble{
        "local", fmt::format("has {:.0f} work items; the limit is {:.0f} (group_max)", items, most->second)};
  return std::nullopt;
}

// PoCL on this machine's processor.
Facts a_processor(int cores) {
  return opencl_facts(cores > 0 ? cores : static_cast<double>(usable_cores().size()), 4096, 524288, 33554432,
                      8);
}

std::unique_ptr<Device> open_device(const std::filesystem::path& cache, int number) {
  if (number != 0)
    throw MissingError(
        "the opencl target uses one device, number 0: the first that OpenCL lists, cards before processors");
  return std::make_unique<OpenclDevice>(OpenclDeviceOptions{cache});
}

std::unique_ptr<SecondLook> look_again(const ServiceOptions& options) {
  return std::make_unique<Oclgrind>(options);
}

}  // namespace

Target opencl_target() {
  static const TargetTraits row{
      .name = "opencl",
      .device = "OpenCL device",
      .also = {"ocl", "pocl"},
      .dtypes = {Dtype::f32, Dtype::f64},
      .facts = {{"compute_units", "compute units; of a processor: the cores that may be used"},
                {"group_max", "most work items of a group"},
                {"local_bytes_max", "most local memory of a group, bytes"},
                {"cache_bytes", "the cache of global memory"},
                {"vector_floats", "floats in a vector register; 1: vectors gain nothing"}},
      .launch_keys =
          {{.name = "global", .form = Form::three, .required = true, .most = {2147483647, 2147483647, 65535}},
           {.name = "local", .form = Form::three, .required = true, .most = {4096, 4096, 4096}},
           {.name = "local_bytes", .least = 0, .most = {1 << 24}, .most_fact = "local_bytes_max"}},
      .launch_trouble = launch_trouble,
      .thread_remedy = "use get_global_id, get_local_id and get_group_id",
      .on_host = true,
      .usual_workloads = {"cpu_quick", "quick"},
      .reported = {"text_bytes"},
      .stand_in_facts = a_processor,
      .stand_in_words = "The numbers are those of PoCL, OpenCL on a processor.",
      .open = open_device,
      .second_look = look_again,
      .exporter = opencl_parts,
      .in_pytorch = false,
      .programs = {{"oclgrind", "oclgrind",
                    "apt-get install oclgrind: confirmations on the opencl target then look for races",
                    false}},
      .directions = {
          {"vector", "use vectors (float4, float8, vload and vstore): unit stride, several independent sums"},
          {"groups",
           "keep what a group shares in local memory or registers: tiles, more work for each item"}}};
  return &row;
}

}  // namespace cultivar
