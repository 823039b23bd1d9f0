// How many blocks of a kernel fit on a multiprocessor at once, and what keeps more from fitting: CUDA's own
// rules (cuda_occupancy.h, compute capability 8.0 and later).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct MultiprocessorLimits {
  int multiprocessors = 0;
  int warps = 64, blocks = 32;
  int registers = 65536;
  int shared_bytes = 0;       // of the multiprocessor
  int reserved_bytes = 1024;  // of its shared memory, for the system, in each block
  int shared_granularity = 128;
  int register_granularity = 256;  // of a warp
  int partitions = 4;
};
// From a device's facts and what its compute capability stands for.
MultiprocessorLimits limits_of(const Facts&);

struct BlockNeeds {
  int threads = 0;
  int registers = 0;     // of a thread
  int shared_bytes = 0;  // static and dynamic
};

enum class OccupancyLimit { warps, blocks, registers, shared_memory, does_not_fit };
std::string_view words_of(OccupancyLimit);  // "shared memory"

struct Occupancy {
  int blocks = 0;                                       // of a multiprocessor at once
  int warps = 0;                                        // that those are
  double share = 0.0;                                   // of the warps that a multiprocessor can hold
  OccupancyLimit limit = OccupancyLimit::does_not_fit;  // what is used up first
  // Blocks that would fit if there were nothing but this limit.
  int by_warps = 0, by_blocks = 0, by_registers = 0, by_shared = 0;
};
Occupancy occupancy(const BlockNeeds&, const MultiprocessorLimits&);

// The grid in rounds of as many blocks as fit on the whole device at once: 2.25 of them take as long as 3.
double waves(std::uint64_t blocks, const Occupancy&, const MultiprocessorLimits&);

}  // namespace cultivar
