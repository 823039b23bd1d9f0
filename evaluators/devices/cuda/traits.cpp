// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/metric_sets.hpp"
#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/devices/cuda/launcher.hpp"
#include "evaluators/devices/cuda/run/device.hpp"
#include "evaluators/devices/cuda/sanitizing.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

using Form = LaunchKey::Form;

std::optional<LaunchTrouble> launch_trouble(const LaunchNumbers& launch, const Facts&) {
  const Geometry g(launch);
  if (product(g.block) > 1024)
    return LaunchTrouble{"block", fmt::format("has {} threads; the limit is 1024", product(g.block))};
  if (product(g.cluster) > 16)
    return LaunchTrouble{"cluster",
                         fmt::format("has {} blocks; the limit is 16 (8 is portable)", product(g.cluster))};
  for (std::size_t i = 0; i < 3; ++i)
    if (g.cluster[i] != 0 && g.grid[i] % g.cluster[i] != 0)
      return LaunchTrouble{
          fmt::format("grid[{}]", i),
          fmt::format("{} is not a multiple of the cluster's {} (round_up it)", g.grid[i], g.cluster[i])};
  return std::nullopt;
}

std::string architecture_on(const Facts& facts) {
  const auto capability = facts.find("compute_capability");
  return capability == facts.end() ? std::string() : architecture_of(static_cast<int>(capability->second));
}

Facts an_h100(int) {
  return known_device("h100")->facts;
}

int gpus() {
  const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible_gpus(listed != nullptr ? std::optional<std::string>(listed) : std::nullopt);
}

std::map<std::string, double> describe_plan(const Resources& resources, const Plan& plan,
                                            const Facts& facts) {
  const MultiprocessorLimits limits = limits_of(facts);
  const auto reported = [&](const char* name) {
    const auto found = resources.values.find(name);
    return found == resources.values.end() ? 0 : static_cast<int>(found->second);
  };
  double threads = 0.0, shared = 0.0, share = 1.0;
  for (const PlannedKernel& kernel : plan.kernels) {
    const auto block = kernel.launch.three("block");
    const BlockNeeds needs{static_cast<int>(block[0] * block[1] * block[2]), reported("registers"),
                           reported("shared_bytes") + static_cast<int>(kernel.launch.number("shared", 0))};
    threads = std::max(threads, static_cast<double>(needs.threads));
    shared = std::max(shared, static_cast<double>(needs.shared_bytes));
    share = std::min(share, occupancy(needs, limits).share);
  }
  return {{"block_threads", threads}, {"block_shared_bytes", shared}, {"occupancy", 100.0 * share}};
}

std::unique_ptr<Device> open_device(const std::filesystem::path& cache, int number) {
  return open_cuda_device(number, cache / "cuda");
}

std::unique_ptr<SecondLook> look_again(const ServiceOptions& options) {
  return std::make_unique<Sanitizing>(options);
}

}  // namespace

// A card of the same architecture with fewer multiprocessors, or a part of this one.
Facts another_machine(Facts facts, std::uint64_t seed) {
  RandomStream stream = stream_of(seed, "another machine", 0);
  double& number = facts["num_sms"];
  number = 1.0 + static_cast<double>(below(stream, static_cast<std::size_t>(number)));
  facts["l2_bytes"] *= std::exp2(static_cast<double>(below(stream, 3)) - 1.0);
  return facts;
}

Target cuda_target() {
  static const Architectures architectures{"sm_90a", architecture_on, trouble_with_architecture,
                                           check_launches, without_hopper};
  static const TargetTraits row{
      .name = "cuda",
      .device = "GPU",
      .also = {"gpu"},
      .dtypes = {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::e4m3, Dtype::e5m2},
      .facts = {{"num_sms", "multiprocessors"},
                {"smem_max", "most dynamic shared memory of a block, bytes"},
                {"l2_bytes", "L2 cache"},
                {"registers_max", "32-bit registers of a multiprocessor"},
                {"threads_max", "most threads resident on a multiprocessor"},
                {"compute_capability", "90 for sm_90"}},
      .launch_keys =
          {{.name = "grid", .form = Form::three, .required = true, .most = {2147483647, 65535, 65535}},
           {.name = "block", .form = Form::three, .required = true, .most = {1024, 1024, 64}},
           {.name = "cluster", .form = Form::three, .most = {16, 16, 16}},
           {.name = "shared", .least = 0, .most = {232448}, .most_fact = "smem_max"},
           {.name = "cooperative", .form = Form::flag},
           {.name = "programmatic_dependent", .form = Form::flag}},
      .launch_trouble = launch_trouble,
      .plan_tensor_map = plan_tensor_map,
      .thread_remedy = "use threadIdx, blockIdx and gridDim",
      .unit = "TFLOPS",
      .unit_scale = 1e12,
      // A GPU's clock and caches want a number of runs; an output that nobody compares costs next to nothing.
      .warm_up = {.runs = 10, .seconds = 0.025, .enough_s = 1.0, .checked = false},
      .workers_per_device = 4,
      .instruments = true,
      .usual_workloads = {"quick", "gpu"},
      .reported = {"registers", "stack_bytes", "shared_bytes", "constant_bytes", "barriers", "text_bytes",
                   "spill_bytes", "tensor_share", "special_share", "float_share", "convert_share",
                   "integer_share", "global_share", "shared_share"},
      .planned = {"block_threads", "block_shared_bytes", "occupancy"},
      .describe_plan = describe_plan,
      .architectures = &architectures,
      .stand_in_facts = an_h100,
      .stand_in_words = "There is no GPU here: kernels are compiled for an H100, whose numbers these are.",
      .another_machine = another_machine,
      .device_count = gpus,
      .open = open_device,
      .second_look = look_again,
      .exporter = cuda_parts,
      .directions = {{"tensor",
                      "feed the tensor cores better: larger tiles, fewer waits, operands from registers",
                      true},
                     {"memory_system",
                      "use the memory system better: TMA or cp.async, swizzles without bank conflicts"},
                     {"roles",
                      "split roles among warps: producers and consumers, persistence, scheduling of tiles"}},
      .profile = &cuda_profile_words()};
  return &row;
}

}  // namespace cultivar
