// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/local_scrub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "evaluators/devices/cuda/run/own_kernels.hpp"

namespace cultivar::cuda {
namespace {

constexpr unsigned kScrubThreads = 1024;

// Frames come in few sizes, because each is compiled and loaded separately. A thread's stack may grow by
// calls beyond what the code says, by default to 1,024 bytes.
std::uint32_t frame_for(std::uint32_t bytes) {
  constexpr std::uint32_t least = 1024, step = 4096;
  if (bytes == 0) return least;
  bytes += least;
  return bytes <= 2 * least ? 2 * least : (bytes + step - 1) / step * step;
}

// The whole frame is written: how wide a thread's place in the pool is depends on the kernel, so what one
// kernel keeps at the start of its frame lies in the middle of another thread's here. Twice, and around the
// L1 cache: every line must have left the multiprocessor, and a dirty line of the first pass is evicted by
// the second.
constexpr const char* kSource = R"(
__device__ unsigned arrivals;
extern "C" __global__ void __launch_bounds__(1024, 2) cultivar_scrub_local(unsigned long long seed) {{
  alignas(16) unsigned frame[{0}];
  unsigned long long place;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(frame));
  if (threadIdx.x == 0) {{  // until all blocks have begun: see meet() in own_kernels.cu
    const unsigned all = (atomicAdd(&arrivals, 1u) / gridDim.x + 1) * gridDim.x;
    unsigned long long now, limit;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    limit = now + 2000000;
    while (static_cast<int>(*static_cast<volatile unsigned*>(&arrivals) - all) < 0 && now < limit)
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }}
  __syncthreads();
  unsigned value = static_cast<unsigned>(seed) ^ (blockIdx.x * 0x9e3779b9u + threadIdx.x);
  const unsigned nan = seed >> 63 != 0 ? 0x7ff87fc0u : 0u;  // as poison_word() of own_kernels.cu
  for (int pass = 0; pass < 2; ++pass) {{
    for (unsigned i = 0; i < {0}; ++i) {{
      value = value * 1664525u + 1013904223u;
      asm volatile("st.local.cg.u32 [%0], %1;" ::"l"(place + 4 * i), "r"(value | nan) : "memory");
    }}
    __syncthreads();
  }}
}}
extern "C" __global__ void cultivar_nothing() {{}}
)";

}  // namespace

std::string LocalScrub::source(std::uint32_t bytes) {
  return fmt::format(kSource, frame_for(bytes) / 4);
}

LocalScrub::LocalScrub(const Driver& driver, Stream stream, std::string architecture,
                       std::filesystem::path cache, std::filesystem::path program, int multiprocessors,
                       int threads_of_multiprocessor)
    : driver_(driver),
      stream_(stream),
      architecture_(std::move(architecture)),
      cache_(std::move(cache)),
      program_(std::move(program)),
      multiprocessors_(static_cast<unsigned>(multiprocessors)),
      threads_(static_cast<unsigned>(threads_of_multiprocessor)) {}

void LocalScrub::prepare(std::uint32_t bytes) {
  const std::uint32_t frame = frame_for(bytes);
  if (functions_.contains(frame)) return;
  const std::vector<std::byte> code = own_machine_code(source(bytes), architecture_, cache_, program_);
  Module loaded = nullptr;
  Function function = nullptr;
  driver_.must(driver_.ModuleLoadData(&loaded, code.data()), "loading the kernel that clears local memory");
  driver_.must(driver_.ModuleGetFunction(&function, loaded, "cultivar_scrub_local"), "cultivar_scrub_local");
  if (driver_.FuncLoad != nullptr) driver_.must(driver_.FuncLoad(function), "cultivar_scrub_local");
  functions_[frame] = function;
}

Result LocalScrub::scrub(std::uint32_t bytes, std::uint64_t seed) {
  prepare(bytes);
  void* parameters[] = {&seed, nullptr};
  LaunchConfig config;
  config.grid[0] = multiprocessors_ * std::max(1u, threads_ / kScrubThreads);
  config.block[0] = kScrubThreads;
  config.stream = stream_;
  return driver_.LaunchKernelEx(&config, functions_.at(frame_for(bytes)), parameters, nullptr);
}

}  // namespace cultivar::cuda
