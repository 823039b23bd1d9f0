// SPDX-License-Identifier: Apache-2.0
// What a plan and a cubin must agree on before launch, and how many blocks then run at once, as far as both
// can be known without a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// False for more than the 8 blocks that every card of its kind can place. The launch must then set
// CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, and a card may still refuse it.
bool cluster_is_portable(const PlannedKernel&);

// The bytes that an argument takes in the kernel's parameter list: 8 for a pointer, 128 for a tensor map.
std::size_t argument_bytes(const PlannedArgument&);

// Checks that arguments match the kernel's parameters in number and size, and that block, cluster, registers
// and shared memory (static plus dynamic) are within the limits of the compiled code and the card. How many
// blocks of a cooperative launch can be resident is known only on the card. The Error names the kernel,
// value, limit and remedy.
Expected<void> check_launch(const CubinKernel&, const PlannedKernel&, const Facts&);
// Checks a whole plan; every kernel must be in the cubin.
Expected<void> check_launches(const Cubin&, const Plan&, const Facts&);

// Checks a cubin file, as far as the rules hold for every card of its architecture. A missing file, or a plan
// that depends on the card, passes and is checked on the card.
Expected<void> check_launches(const std::filesystem::path& cubin, const Variant&, const Task&,
                              const Workload&, const std::string& architecture);

// A launch's keys as the driver takes them.
struct Geometry {
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::size_t shared_bytes = 0;  // dynamic
  bool cooperative = false, programmatic_dependent = false;

  explicit Geometry(const LaunchNumbers& launch)
      : grid(launch.three("grid")),
        block(launch.three("block")),
        cluster(launch.three("cluster")),
        shared_bytes(static_cast<std::size_t>(launch.number("shared", 0))),
        cooperative(launch.flag("cooperative")),
        programmatic_dependent(launch.flag("programmatic_dependent")) {}
};

inline std::uint64_t product(const std::array<std::uint32_t, 3>& v) {
  return std::uint64_t{v[0]} * v[1] * v[2];
}

// How many blocks of a kernel fit on a multiprocessor at once, and which resource limits that number, by
// CUDA's rules (cuda_occupancy.h, compute capability 8.0 and later).
struct MultiprocessorLimits {
  int multiprocessors = 0;
  int warps = 64, blocks = 32;
  int registers = 65536;
  int shared_bytes = 0;       // per multiprocessor
  int reserved_bytes = 1024;  // reserved for the system in each block
  int shared_granularity = 128;
  int register_granularity = 256;  // per warp
  int partitions = 4;
};
// Computed from a device's facts and its compute capability.
MultiprocessorLimits limits_of(const Facts&);

struct BlockNeeds {
  int threads = 0;
  int registers = 0;     // per thread
  int shared_bytes = 0;  // static and dynamic
};

Occupancy occupancy(const BlockNeeds&, const MultiprocessorLimits&);

// The grid size divided by the number of blocks that fit on the whole device at once; 2.25 waves take as long
// as 3.
double waves(std::uint64_t blocks, const Occupancy&, const MultiprocessorLimits&);

}  // namespace cultivar
