// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/launch_rules.hpp"

#include <boost/test/unit_test.hpp>

#if __has_include(<cuda_occupancy.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#define HAS_NVIDIAS_RULES 1
#endif

using namespace cultivar;

namespace {

MultiprocessorLimits h100() {
  return limits_of({{"num_sms", 132},
                    {"smem_max", 232448},
                    {"registers_max", 65536},
                    {"threads_max", 2048},
                    {"compute_capability", 90}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(occupancy)

BOOST_AUTO_TEST_CASE(hand_checked_kernels_on_an_h100) {
  const MultiprocessorLimits limits = h100();
  BOOST_TEST(limits.shared_bytes == 228 * 1024);
  // Three warpgroups at 168 registers: 168 x 32 = 5376 a warp; a quarter of the registers, 16384, holds 3 of
  // those, so 12 warps in all: one block. Shared memory would allow no second one either.
  Occupancy o = cultivar::occupancy({384, 168, 164864}, limits);
  BOOST_TEST(o.blocks == 1);
  BOOST_TEST(o.warps == 12);
  BOOST_TEST(o.share == 12.0 / 64, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(o.blocks_by_registers == 1);
  BOOST_TEST(o.blocks_by_shared_memory == 1);
  BOOST_TEST((o.limit == OccupancyLimit::registers));
  // 256 threads of 32 registers: 1024 a warp, 16 a partition, 64 warps: everything is full at 8 blocks.
  o = cultivar::occupancy({256, 32, 0}, limits);
  BOOST_TEST(o.blocks == 8);
  BOOST_TEST(o.share == 1.0);
  // 33 registers round up to 1280 a warp: 12 a partition, 48 warps, 6 blocks.
  o = cultivar::occupancy({256, 33, 0}, limits);
  BOOST_TEST(o.blocks == 6);
  BOOST_TEST((o.limit == OccupancyLimit::registers));
  // 100 KiB and the reserved one are 101 of 228: two blocks.
  o = cultivar::occupancy({128, 40, 100 * 1024}, limits);
  BOOST_TEST(o.blocks == 2);
  BOOST_TEST((o.limit == OccupancyLimit::shared_memory));
  // One warp a block: 32 blocks are the most there are.
  o = cultivar::occupancy({32, 16, 0}, limits);
  BOOST_TEST(o.blocks == 32);
  BOOST_TEST((o.limit == OccupancyLimit::blocks));
  // 1024 threads of 64 registers are all registers; of 65 they do not fit.
  BOOST_TEST(cultivar::occupancy({1024, 64, 0}, limits).blocks == 1);
  BOOST_TEST(cultivar::occupancy({1024, 65, 0}, limits).blocks == 0);
  BOOST_TEST((cultivar::occupancy({1024, 65, 0}, limits).limit == OccupancyLimit::does_not_fit));
  BOOST_TEST(cultivar::occupancy({1024, 16, 0}, limits).blocks == 2);
}

BOOST_AUTO_TEST_CASE(waves_are_rounds_of_what_fits_at_once) {
  const MultiprocessorLimits limits = h100();
  const Occupancy o = cultivar::occupancy({384, 168, 164864}, limits);
  BOOST_TEST(waves(132, o, limits) == 1.0);
  BOOST_TEST(waves(297, o, limits) == 2.25);
  BOOST_TEST(waves(132, Occupancy{}, limits) == 0.0);
}

#ifdef HAS_NVIDIAS_RULES
BOOST_AUTO_TEST_CASE(it_is_what_nvidias_calculator_says) {
  struct Chip {
    int major, minor, shared, warps;
  };
  for (const Chip chip : {Chip{8, 0, 164, 64}, Chip{8, 6, 100, 48}, Chip{8, 9, 100, 48}, Chip{9, 0, 228, 64},
                          Chip{10, 0, 228, 64}, Chip{12, 0, 100, 48}}) {
    cudaOccDeviceProp device;
    device.computeMajor = chip.major;
    device.computeMinor = chip.minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = chip.warps * 32;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = static_cast<std::size_t>(chip.shared) * 1024;
    device.numSms = 132;
    device.sharedMemPerBlockOptin = static_cast<std::size_t>(chip.shared - 1) * 1024;
    device.reservedSharedMemPerBlock = 1024;
    const MultiprocessorLimits limits = limits_of({{"num_sms", 132.0},
                                                   {"smem_max", (chip.shared - 1) * 1024.0},
                                                   {"registers_max", 65536.0},
                                                   {"threads_max", chip.warps * 32.0},
                                                   {"compute_capability", chip.major * 10.0 + chip.minor}});
    for (int threads = 32; threads <= 1024; threads += 96)
      for (int registers = 16; registers <= 255; registers += 13)
        for (int shared = 0; shared < (chip.shared - 1) * 1024; shared += 7777) {
          cudaOccFuncAttributes attributes;
          attributes.maxThreadsPerBlock = 1024;
          attributes.numRegs = registers;
          attributes.sharedSizeBytes = 0;
          attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
          attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(shared);
          attributes.numBlockBarriers = 1;
          cudaOccDeviceState state;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult theirs;
          BOOST_REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &device, &attributes, &state,
                                                                threads, static_cast<std::size_t>(shared)) ==
                        CUDA_OCC_SUCCESS);
          const Occupancy ours = cultivar::occupancy({threads, registers, shared}, limits);
          BOOST_TEST_REQUIRE(ours.blocks == theirs.activeBlocksPerMultiprocessor,
                             chip.major << "." << chip.minor << ": " << threads << " threads, " << registers
                                        << " registers, " << shared << " bytes");
        }
  }
}
#endif

BOOST_AUTO_TEST_SUITE_END()
