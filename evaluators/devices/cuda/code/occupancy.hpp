// SPDX-License-Identifier: Apache-2.0
// How many blocks of a kernel fit on a multiprocessor at once, and which resource limits that number, by
// CUDA's rules (cuda_occupancy.h, compute capability 8.0 and later).
#pragma once

#include <cstdint>
#include "evaluators/profile/profile.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

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
