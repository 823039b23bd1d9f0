// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/own_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "embedded/cuda_sources.hpp"
#include "evaluators/languages/cuda_cpp/compiler.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar::cuda {

namespace {

constexpr unsigned kThreads = 256;
constexpr double kCompileSeconds = 120.0;

// In the order of OwnKernels::Name.
constexpr std::array own_names = {
    "cultivar_poison", "cultivar_still_poisoned", "cultivar_checksum",      "cultivar_window",
    "cultivar_gather", "cultivar_write_guards",   "cultivar_check_guards",  "cultivar_wait",
    "cultivar_stamp",  "cultivar_nothing",        "cultivar_copy",          "cultivar_read",
    "cultivar_matrix", "cultivar_scrub",          "cultivar_fill_registers"};

// One wgmma of 64 x 256 x 16 lists its 128 accumulators individually.
std::string wgmma_macro() {
  std::string registers, operands;
  for (int i = 0; i < 128; ++i) {
    registers += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i == 0 ? "" : ", ", i);
  }
  return fmt::format(
      "#define CULTIVAR_WGMMA(d, a, b) asm volatile(\"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{{{}}}, %128, %129, 1, 1, 1, 0, 0;\" : {} : \"l\"(a), \"l\"(b))\n",
      registers, operands);
}

}  // namespace

std::vector<std::byte> own_machine_code(const std::string& architecture, const std::filesystem::path& cache,
                                        const std::filesystem::path& program) {
  return own_machine_code(wgmma_macro() + std::string(cuda_sources::own_kernels_cu), architecture, cache,
                          program);
}

std::vector<std::byte> own_machine_code(const std::string& source, const std::string& architecture,
                                        const std::filesystem::path& cache,
                                        const std::filesystem::path& program) {
  CudaCompilerOptions options;
  options.cache = cache;
  options.architecture = architecture;
  options.program = program;
  options.trusted = true;
  CudaCompiler compiler(options);
  Variant variant;
  variant.source = source;
  variant.manifest.target = target_named("cuda");
  variant.manifest.launch.emplace_back().kernel =
      "cultivar_nothing";  // the others are not launched through a plan
  const auto binary = compiler.compile(variant, {}, kCompileSeconds);
  if (!binary)
    throw MissingError(fmt::format("Cultivar's own GPU kernels do not compile for {}: {}\n{}", architecture,
                                   binary.error().reason, binary.error().diagnostics));
  const auto code = read_file(binary->path);
  if (!code) throw MissingError(code.error().message);
  const auto bytes = std::as_bytes(std::span(*code));
  return {bytes.begin(), bytes.end()};
}

OwnKernels::OwnKernels(const Driver& driver, Stream stream, std::span<const std::byte> machine_code,
                       int multiprocessors, int shared_bytes)
    : driver_(driver),
      stream_(stream),
      multiprocessors_(static_cast<unsigned>(multiprocessors)),
      shared_bytes_(static_cast<unsigned>(shared_bytes)) {
  static_assert(own_names.size() == kCount);
  Module loaded = nullptr;
  driver.must(driver.ModuleLoadData(&loaded, machine_code.data()), "loading Cultivar's own GPU kernels");
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    driver.must(driver.ModuleGetFunction(&functions_[i], loaded, own_names[i]), own_names[i]);
    if (driver.FuncLoad != nullptr) driver.must(driver.FuncLoad(functions_[i]), own_names[i]);
  }
  driver.must(
      driver.FuncSetAttribute(functions_[kScrub], function_attribute::max_dynamic_shared, shared_bytes),
      "requesting shared memory");
}

template <class... Arguments>
Result OwnKernels::launch(Name name, unsigned blocks_x, unsigned blocks_y, unsigned threads,
                          Arguments... arguments) const {
  void* parameters[] = {static_cast<void*>(&arguments)..., nullptr};
  LaunchConfig config;
  config.grid[0] = blocks_x;
  config.grid[1] = blocks_y;
  config.block[0] = threads;
  if (name == kScrub) config.shared_bytes = shared_bytes_;
  config.stream = stream_;
  return driver_.LaunchKernelEx(&config, functions_[name], parameters, nullptr);
}

unsigned OwnKernels::blocks_for(std::uint64_t items) const {
  const std::uint64_t needed = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(needed, 1, std::uint64_t{multiprocessors_} * 16));
}

Result OwnKernels::poison(Address to, std::uint64_t bytes, std::uint64_t seed) const {
  return launch(kPoison, blocks_for(bytes / 8), 1, kThreads, to, bytes, seed);
}
Result OwnKernels::still_poisoned(Address at, std::uint64_t bytes, std::uint64_t seed, Address count) const {
  return launch(kStillPoisoned, blocks_for(bytes / 8), 1, kThreads, at, bytes, seed, count);
}
Result OwnKernels::checksum(Address at, std::uint64_t bytes, std::uint64_t seed, Address sum) const {
  return launch(kChecksum, blocks_for(bytes / 8), 1, kThreads, at, bytes, seed, sum);
}
Result OwnKernels::window(Address to, Address from, std::uint64_t bytes) const {
  return launch(kWindow, blocks_for(bytes / 16), 1, kThreads, to, from, bytes);
}
Result OwnKernels::gather(Address from, Address elements, std::uint64_t count, std::uint32_t width,
                          Address to) const {
  return launch(kGather, blocks_for(count), 1, kThreads, from, elements, count, width, to);
}

namespace {

struct RegionList {  // must match the declaration in own_kernels.cu
  Region list[max_regions];
};
RegionList list_of(std::span<const Region> regions) {
  RegionList list;
  std::copy_n(regions.begin(), std::min(regions.size(), max_regions), list.list);
  return list;
}
constexpr unsigned kGuardBlocks = 64;  // per region: the last guard may have 2 MiB

}  // namespace

Result OwnKernels::write_guards(std::span<const Region> regions, std::uint64_t seed) const {
  return launch(kWriteGuards, kGuardBlocks, static_cast<unsigned>(regions.size()), kThreads, list_of(regions),
                seed);
}
Result OwnKernels::check_guards(std::span<const Region> regions, std::uint64_t seed, Address low,
                                Address high) const {
  return launch(kCheckGuards, kGuardBlocks, static_cast<unsigned>(regions.size()), kThreads, list_of(regions),
                seed, low, high);
}
Result OwnKernels::wait(Address flag, std::uint32_t token, Address gave_up, std::uint64_t limit_ns) const {
  return launch(kWait, 1, 1, 1, flag, token, gave_up, limit_ns);
}
Result OwnKernels::stamp(Address out) const {
  return launch(kStamp, multiprocessors_, 1, 1, out);
}
Result OwnKernels::nothing() const {
  return launch(kNothing, 1, 1, 1);
}
Result OwnKernels::scrub(std::uint64_t seed, bool reserved_too) const {
  return launch(kScrub, multiprocessors_, 1, 1024, shared_bytes_, seed, std::uint32_t{reserved_too});
}
Result OwnKernels::fill_registers(std::uint64_t seed) const {
  return launch(kFillRegisters, multiprocessors_, 1, 1024, seed, Address{0});
}
Result OwnKernels::copy(Address to, Address from, std::uint64_t bytes) const {
  return launch(kCopy, multiprocessors_ * 8, 1, kThreads, to, from, bytes / 16);
}
Result OwnKernels::read(Address from, std::uint64_t bytes, std::uint32_t passes, Address out) const {
  return launch(kRead, multiprocessors_ * 8, 1, kThreads, from, bytes / 16, passes, out);
}
Result OwnKernels::matrix(std::uint32_t iterations, Address out, int compute_capability,
                          double* flops) const {
  const unsigned blocks = multiprocessors_ * 2;
  const double warps = static_cast<double>(blocks) * kThreads / 32, calls = iterations;
  // As in own_kernels.cu: 64 x 256 x 64 per warpgroup, or four times 16 x 8 x 16 per warp.
  *flops = compute_capability == 90 ? warps / 4 * calls * 2.0 * 64 * 256 * 64
                                    : warps * calls * 4 * 2.0 * 16 * 8 * 16;
  return launch(kMatrix, blocks, 1, kThreads, iterations, out);
}

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
