// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "evaluators/devices/cpu/code/profile_words.hpp"
#include "evaluators/devices/cpu/device.hpp"
#include "evaluators/devices/cpu/launcher.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

Facts this_machine(int cores) {
  Facts facts = cpu_facts();
  if (cores > 0) facts["num_cores"] = cores;
  return facts;
}

// From one core to those that there are, and caches from a quarter to four times as large.
Facts another_machine(Facts facts, std::uint64_t seed) {
  RandomStream stream = stream_of(seed, "another machine", 0);
  double& cores = facts["num_cores"];
  cores = 1.0 + static_cast<double>(below(stream, static_cast<std::size_t>(cores)));
  for (const char* cache : {"l1_bytes", "l2_bytes", "l3_bytes"})
    facts[cache] *= std::exp2(static_cast<double>(below(stream, 5)) - 2.0);
  return facts;
}

// Shares of threads are products of their numbers.
Facts largest_machine(Facts facts) {
  facts["num_cores"] = std::max(facts["num_cores"], 128.0);
  return facts;
}

std::unique_ptr<Device> open_device(const std::filesystem::path& cache, int number) {
  if (number != 0)
    throw MissingError("the cpu target has one device, number 0; use `cores` to set its number of cores");
  return std::make_unique<CpuDevice>(CpuDeviceOptions{cache / "cpu"});
}

}  // namespace

Target cpu_target() {
  static const TargetTraits row{
      .name = "cpu",
      .device = "core",
      .dtypes = {Dtype::f32, Dtype::f64},
      .facts = {{"num_cores", "cores that a variant may use: the default of `threads`"},
                {"l1_bytes", "level 1 data cache of a core"},
                {"l2_bytes", "level 2 cache of a core"},
                {"l3_bytes", "last-level cache"},
                {"vector_bits", "width of the widest vector register: 128, 256 or 512"},
                {"page_bytes", "size of a memory page"}},
      .launch_keys = {{.name = "threads", .fallback = "num_cores", .most = {1024}}},
      .thread_arguments = true,
      // A slow kernel on the host is warm after one run.
      .warm_up = {},
      .on_host = true,
      .usual_workloads = {"cpu_quick", "quick"},
      .reported = {"text_bytes", "stack_bytes", "constant_bytes"},
      .stand_in_facts = this_machine,
      .another_machine = another_machine,
      .largest_machine = largest_machine,
      .open = open_device,
      .exporter = cpu_parts,
      .programs = {{"g++", "g++", "apt-get install g++"},
                   {"bwrap", "bubblewrap",
                    "apt-get install bubblewrap: without it kernels are kept in by fewer walls", false}},
      .directions = {{"vector",
                      "use wider vectors: layout, alignment, unit stride, several independent sums"},
                     {"blocking",
                      "block for the caches: loop order, tile sizes, packing of what is read often"}},
      .profile = &cpu_profile_words()};
  return &row;
}

}  // namespace cultivar
