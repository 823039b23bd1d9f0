// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/occupancy.hpp"

#include <algorithm>
#include <climits>

namespace cultivar {
namespace {

constexpr int warp_threads = 32, most_registers = 255;

int up(int value, int granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

int fact_or(const Facts& facts, std::string_view name, int otherwise) {
  const auto found = facts.find(name);
  return found == facts.end() ? otherwise : static_cast<int>(found->second);
}

}  // namespace

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
