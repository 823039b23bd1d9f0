// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/launch_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

namespace {

using Three = std::array<std::uint32_t, 3>;

std::string in_words(const Three& v) {
  return fmt::format("[{}, {}, {}]", v[0], v[1], v[2]);
}

std::vector<std::uint64_t> figures_of(const Three& asked, const Three& fixed) {
  return {asked[0], asked[1], asked[2], fixed[0], fixed[1], fixed[2]};
}

double fact(const Facts& facts, const char* name, double otherwise) {
  const auto found = facts.find(name);
  return found == facts.end() ? otherwise : found->second;
}

enum class LaunchRule {
  code,
  parameters,
  argument_bytes,
  block,
  grid,
  cluster,
  threads,
  cluster_blocks,
  clusters,
  most_threads,
  exact_threads,
  exact_cluster,
  shared,
  stack,
  registers
};

// A rule that a launch breaks, with the requested values and their limits.
struct LaunchBreach {
  std::string kernel;
  LaunchRule rule = LaunchRule::code;
  std::vector<std::uint64_t> figures;
  std::string words;  // for people only

  bool same_as(const LaunchBreach& other) const {
    return kernel == other.kernel && rule == other.rule && figures == other.figures;
  }
};

Expected<void> in_words(const std::optional<LaunchBreach>& breach) {
  if (!breach) return {};
  return failure("launch", fmt::format("kernel '{}'{}", breach->kernel, breach->words));
}

class LaunchChecker {
 public:
  LaunchChecker(const CubinKernel& code, const PlannedKernel& plan, const Facts& facts)
      : code_(code), plan_(plan), launch_(plan.launch), facts_(facts) {}

  std::optional<LaunchBreach> check() {
    check_arguments();
    check_geometry();
    check_resources();
    return std::move(first_);
  }

 private:
  void fail(LaunchRule rule, std::vector<std::uint64_t> figures, const std::string& what) {
    if (!first_) first_ = LaunchBreach{plan_.kernel, rule, std::move(figures), ": " + what};
  }

  void check_arguments() {
    if (code_.parameters.size() != plan_.args.size())
      return fail(LaunchRule::parameters, {code_.parameters.size(), plan_.args.size()},
                  fmt::format("the kernel has {} parameters, but the manifest gives {} arguments",
                              code_.parameters.size(), plan_.args.size()));
    for (std::size_t i = 0; i < plan_.args.size(); ++i)
      if (const std::size_t bytes = argument_bytes(plan_.args[i]); bytes != code_.parameters[i].bytes)
        fail(
            LaunchRule::argument_bytes, {i, code_.parameters[i].bytes, bytes},
            fmt::format(
                "parameter {} has {} bytes, but its argument has {} (dimensions are int; {{value: ..., type: "
                "...}} gives another type)",
                i + 1, code_.parameters[i].bytes, bytes));
  }

  void check_geometry() {
    const std::uint64_t threads = product(launch_.block), blocks = product(launch_.cluster);
    constexpr Three block_limit{1024, 1024, 64}, grid_limit{2147483647, 65535, 65535};
    for (std::size_t i = 0; i < 3; ++i) {
      if (launch_.block[i] < 1 || launch_.block[i] > block_limit[i])
        fail(LaunchRule::block, {i, launch_.block[i]},
             fmt::format("block[{}] is {}; it must be 1 to {}", i, launch_.block[i], block_limit[i]));
      if (launch_.grid[i] < 1 || launch_.grid[i] > grid_limit[i])
        fail(LaunchRule::grid, {i, launch_.grid[i]},
             fmt::format("grid[{}] is {}; it must be 1 to {}", i, launch_.grid[i], grid_limit[i]));
      if (launch_.cluster[i] < 1 || launch_.grid[i] % std::max(1u, launch_.cluster[i]) != 0)
        fail(LaunchRule::cluster, {i, launch_.grid[i], launch_.cluster[i]},
             fmt::format("grid[{}] is {}, which is not a multiple of the cluster's {}; use round_up", i,
                         launch_.grid[i], launch_.cluster[i]));
    }
    if (threads > 1024)
      fail(LaunchRule::threads, {threads},
           fmt::format("the block has {} threads; the limit is 1024", threads));
    if (blocks > 16)
      fail(LaunchRule::cluster_blocks, {blocks},
           fmt::format("the cluster has {} blocks; the limit is 16 (8 is portable)", blocks));
    if (blocks > 1 && fact(facts_, "compute_capability", 90) < 90)
      fail(LaunchRule::clusters, {}, "clusters need compute capability 9.0");
    if (code_.threads_at_most && threads > product(*code_.threads_at_most))
      fail(LaunchRule::most_threads, {threads, product(*code_.threads_at_most)},
           fmt::format("the block has {} threads, but __launch_bounds__ allows at most {}", threads,
                       product(*code_.threads_at_most)));
    if (code_.threads_exactly && *code_.threads_exactly != launch_.block)
      fail(LaunchRule::exact_threads, figures_of(launch_.block, *code_.threads_exactly),
           fmt::format("block is {}, but the code was compiled for exactly {}", in_words(launch_.block),
                       in_words(*code_.threads_exactly)));
    if (code_.cluster_exactly && *code_.cluster_exactly != launch_.cluster)
      fail(LaunchRule::exact_cluster, figures_of(launch_.cluster, *code_.cluster_exactly),
           fmt::format("cluster is {}, but __cluster_dims__ is {}; use the same value in the manifest",
                       in_words(launch_.cluster), in_words(*code_.cluster_exactly)));
  }

  void check_resources() {
    const double most = fact(facts_, "smem_max", 232448);
    const std::uint64_t shared = launch_.shared_bytes + code_.shared_bytes;
    if (static_cast<double>(shared) > most)
      fail(LaunchRule::shared, {shared, static_cast<std::uint64_t>(most)},
           fmt::format(
               "the block needs {} bytes of shared memory ({} dynamic, {} static); the limit is {:.0f}",
               shared, launch_.shared_bytes, code_.shared_bytes, most));
    // Before the first launch the driver reserves the stack for every thread that can be resident.
    const double stack = code_.stack_bytes * fact(facts_, "threads_max", 2048) * fact(facts_, "num_sms", 132);
    constexpr double most_stack = 40e9;  // half of the smallest card's memory
    if (stack > most_stack)
      fail(
          LaunchRule::stack, {code_.stack_bytes},
          fmt::format(
              "a stack of {} bytes per thread exceeds a card's memory when reserved for all resident threads "
              "(move arrays to shared memory or make them smaller)",
              code_.stack_bytes));
    // Registers are allocated to warps in units of 256, which is 8 per thread.
    const std::uint64_t warps = (product(launch_.block) + 31) / 32,
                        registers = warps * 32 * ((code_.registers + 7) / 8 * 8);
    const double file = fact(facts_, "registers_max", 65536);
    if (static_cast<double>(registers) > file)
      fail(LaunchRule::registers, {registers, static_cast<std::uint64_t>(file)},
           fmt::format("{} registers for each of {} threads need {}; a multiprocessor has {:.0f} (set "
                       "__launch_bounds__({}))",
                       code_.registers, warps * 32, registers, file, product(launch_.block)));
  }

  const CubinKernel& code_;
  const PlannedKernel& plan_;
  Geometry launch_;
  const Facts& facts_;
  std::optional<LaunchBreach> first_;
};

std::optional<LaunchBreach> breach_of(const Cubin& cubin, const Plan& plan, const Facts& facts) {
  for (const PlannedKernel& kernel : plan.kernels) {
    const CubinKernel* const code = cubin.kernel(kernel.kernel);
    if (code == nullptr)
      return LaunchBreach{kernel.kernel, LaunchRule::code, {}, " is not in the machine code"};
    if (auto breach = LaunchChecker(*code, kernel, facts).check()) return breach;
  }
  return std::nullopt;
}

constexpr int warp_threads = 32, most_registers = 255;

int up(int value, int granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

int fact_or(const Facts& facts, std::string_view name, int otherwise) {
  const auto found = facts.find(name);
  return found == facts.end() ? otherwise : static_cast<int>(found->second);
}

}  // namespace

bool cluster_is_portable(const PlannedKernel& kernel) {
  return product(Geometry(kernel.launch).cluster) <= 8;
}

std::size_t argument_bytes(const PlannedArgument& argument) {
  switch (argument.kind) {
    case PlannedArgument::Kind::buffer:
      return 8;
    case PlannedArgument::Kind::tensor_map:
      return tensor_map_bytes;
    case PlannedArgument::Kind::scalar:
      return size_of(argument.type);
    case PlannedArgument::Kind::thread:
    case PlannedArgument::Kind::threads:
      break;  // only for targets with host threads
  }
  return size_of(Dtype::i32);
}

Expected<void> check_launch(const CubinKernel& code, const PlannedKernel& plan, const Facts& facts) {
  return in_words(LaunchChecker(code, plan, facts).check());
}

Expected<void> check_launches(const Cubin& cubin, const Plan& plan, const Facts& facts) {
  return in_words(breach_of(cubin, plan, facts));
}

Expected<void> check_launches(const std::filesystem::path& file, const Variant& variant, const Task& task,
                              const Workload& workload, const std::string& architecture) {
  const std::string bytes = read_file(file).value_or("");
  const auto cubin = read_cubin(std::as_bytes(std::span(bytes)));
  if (!cubin) return {};
  std::optional<LaunchBreach> first;
  for (const KnownDevice& card : known_devices()) {
    if (card.architecture != architecture) continue;
    // Cards of one architecture differ in the number of multiprocessors: an H100 PCIe has 114.
    for (const double multiprocessors : {card.facts.at("num_sms"), 114.0}) {
      Facts facts = card.facts;
      facts["num_sms"] = multiprocessors;
      const auto plan = make_plan(variant, task, workload, facts);
      if (!plan) return {};
      auto breach = breach_of(*cubin, *plan, facts);
      if (!breach || (first && !breach->same_as(*first))) return {};
      first = std::move(breach);
    }
  }
  return in_words(first);
}

MultiprocessorLimits limits_of(const Facts& facts) {
  MultiprocessorLimits limits;
  const int capability = fact_or(facts, "compute_capability", 90);
  limits.multiprocessors = fact_or(facts, "num_sms", 0);
  limits.registers = fact_or(facts, "registers_max", 65536);
  limits.warps = fact_or(facts, "threads_max", 2048) / warp_threads;
  // A block can use all shared memory of a multiprocessor except what the system reserves in it.
  limits.shared_bytes = fact_or(facts, "smem_max", 0) + limits.reserved_bytes;
  switch (capability) {
    case 86:
    case 87:
      limits.blocks = 16;
      break;
    case 89:
    case 101:
    case 110:
    case 120:
    case 121:
      limits.blocks = 24;
      break;
    default:
      limits.blocks = 32;
  }
  return limits;
}

Occupancy occupancy(const BlockNeeds& needs, const MultiprocessorLimits& limits) {
  Occupancy result;
  const int warps = up(needs.threads, warp_threads) / warp_threads;
  if (warps == 0) return result;
  result.blocks_by_warps = limits.warps / warps;
  result.blocks_by_count = limits.blocks;
  const int registers_of_warp = up(needs.registers * warp_threads, limits.register_granularity);
  if (registers_of_warp == 0) {
    result.blocks_by_registers = INT_MAX;
  } else if (needs.registers <= most_registers &&
             registers_of_warp * up(warps, limits.partitions) <= limits.registers) {
    const int of_partition = limits.registers / limits.partitions / registers_of_warp;
    result.blocks_by_registers = of_partition * limits.partitions / warps;
  }
  const int shared = up(needs.shared_bytes + limits.reserved_bytes, limits.shared_granularity);
  result.blocks_by_shared_memory = shared == 0 ? INT_MAX : limits.shared_bytes / shared;
  result.blocks = std::min({result.blocks_by_warps, result.blocks_by_count, result.blocks_by_registers,
                            result.blocks_by_shared_memory});
  if (result.blocks == 0) return result;
  result.warps = result.blocks * warps;
  result.share = static_cast<double>(result.warps) / limits.warps;
  // Of equal limits, report the one that a kernel's author can influence most.
  result.limit = result.blocks == result.blocks_by_registers       ? OccupancyLimit::registers
                 : result.blocks == result.blocks_by_shared_memory ? OccupancyLimit::shared_memory
                 : result.blocks == result.blocks_by_warps         ? OccupancyLimit::warps
                                                                   : OccupancyLimit::blocks;
  return result;
}

double waves(std::uint64_t blocks, const Occupancy& fits, const MultiprocessorLimits& limits) {
  const double at_once = static_cast<double>(fits.blocks) * limits.multiprocessors;
  return at_once <= 0.0 ? 0.0 : static_cast<double>(blocks) / at_once;
}

}  // namespace cultivar
