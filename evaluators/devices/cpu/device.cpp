// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "evaluators/devices/cpu/session.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/languages/cpp/compiler.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/system/cores.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The size of the data or unified cache of a level, as one core sees it; 0 if unknown.
double cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (first_line(folder + "level") != std::to_string(level) || first_line(folder + "type") == "Instruction")
      continue;
    const std::string size = first_line(folder + "size");
    if (size.empty()) continue;
    const double unit = size.back() == 'K' ? 1024.0 : size.back() == 'M' ? 1048576.0 : 1.0;
    return std::atof(size.c_str()) * unit;
  }
  static constexpr int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  const long bytes = ::sysconf(names[level]);
  return bytes > 0 ? static_cast<double>(bytes) : 0.0;
}

double vector_bits() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 512.0;
  if (__builtin_cpu_supports("avx2")) return 256.0;
#endif
  return 128.0;
}

// Multiply-adds on registers in f32, and in bf16 if the processor supports it; the faster result is the
// ceiling. Sixteen accumulators hide the latency of two units.
constexpr const char* kernels_source = R"(
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

extern "C" void multiply_add(float* out, std::int64_t iterations, std::int32_t thread) {
  Vector a[16];
  for (int j = 0; j < 16; ++j) a[j] = Vector{} + static_cast<float>(j + thread);
  const Vector m = Vector{} + 0.999f, c = Vector{} + 0.001f;
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) a[j] = a[j] * m + c;
    asm volatile("" ::: "memory");
  }
  Vector sum = a[0];
  for (int j = 1; j < 16; ++j) sum += a[j];
  out[thread] = sum[0] + sum[VECTOR_BYTES / 4 - 1];
}

extern "C" void dot_bf16(float* out, std::int64_t iterations, std::int32_t thread) {
#if defined(__AVX512BF16__)
  __m512 a[16];
  for (int j = 0; j < 16; ++j) a[j] = _mm512_set1_ps(static_cast<float>(j + thread));
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.01f), _mm512_set1_ps(0.02f));
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) a[j] = _mm512_dpbf16_ps(a[j], x, x);
    asm volatile("" ::: "memory");
  }
  for (int j = 1; j < 16; ++j) a[0] = _mm512_add_ps(a[0], a[j]);
  out[thread] = _mm512_reduce_add_ps(a[0]);
#else
  out[thread] = static_cast<float>(iterations);
#endif
}

// Each thread copies its own slice. memcpy uses streaming stores when that is faster.
extern "C" void copy(char* to, const char* from, std::int64_t bytes, std::int64_t passes, std::int32_t thread,
                     std::int32_t threads) {
  const std::int64_t slice = bytes / threads / 4096 * 4096;
  for (std::int64_t p = 0; p < passes; ++p) {
    std::memcpy(to + thread * slice, from + thread * slice, static_cast<std::size_t>(slice));
    asm volatile("" ::: "memory");
  }
}

extern "C" void read(float* out, const char* from, std::int64_t bytes, std::int64_t passes, std::int32_t thread,
                     std::int32_t threads) {
  const std::int64_t slice = bytes / threads / 4096 * 4096;
  Vector sum[8] = {};
  for (std::int64_t p = 0; p < passes; ++p) {
    const Vector* v = reinterpret_cast<const Vector*>(from + thread * slice);
    for (std::int64_t i = 0; i < slice / VECTOR_BYTES; i += 8)
      for (int j = 0; j < 8; ++j) sum[j] += v[i + j];
    asm volatile("" ::: "memory");
  }
  for (int j = 1; j < 8; ++j) sum[0] += sum[j];
  out[thread] = sum[0][0];
}

// Every thread loads and stores its part of the vectors, whose counts may differ. The barriers keep the
// compiler from calling memset or memcpy, which choose other stores by themselves.
template <bool kLoads, bool kStores, bool kStreamed>
static inline void move(Vector* to, const Vector* from, std::int64_t written, std::int64_t read, int thread,
                        int threads) {
  Vector sum = {};
  const std::int64_t most = written > read ? written : read;
  for (std::int64_t i = most * thread / threads, end = most * (thread + 1) / threads; i < end; ++i) {
    Vector v = sum;
    if (kLoads && i < read) v = from[i], sum += v;
    if (kStores && i < written) {
#if defined(__AVX512F__)
      if (kStreamed) { _mm512_stream_ps(reinterpret_cast<float*>(to + i), (__m512)v); continue; }
#elif defined(__AVX__)
      if (kStreamed) { _mm256_stream_ps(reinterpret_cast<float*>(to + i), (__m256)v); continue; }
#endif
      to[i] = v;
    }
    asm volatile("" ::: "memory");
  }
#if defined(__x86_64__)
  if (kStreamed) _mm_sfence();
#endif
  if (kLoads && !kStores) asm volatile("" ::"x"(sum));
}
#define TRAFFIC(name, loads, stores, streamed)                                                             \
  extern "C" void name(Vector* to, const Vector* from, std::int64_t written, std::int64_t read,            \
                       std::int32_t thread, std::int32_t threads) {                                        \
    move<loads, stores, streamed>(to, from, written, read, thread, threads);                               \
  }
TRAFFIC(loads, true, false, false)
TRAFFIC(stores, false, true, false)
TRAFFIC(both, true, true, false)
TRAFFIC(streamed, true, true, true)
)";

PlannedArgument buffer(int index) {
  PlannedArgument a;
  a.kind = PlannedArgument::Kind::buffer;
  a.index = index;
  return a;
}
PlannedArgument number(std::int64_t value) {
  PlannedArgument a;
  a.type = Dtype::i64;
  a.value = static_cast<double>(value);
  return a;
}
PlannedArgument special(PlannedArgument::Kind kind) {
  PlannedArgument a;
  a.kind = kind;
  return a;
}

class Meter {
 public:
  Meter(Device& device, const std::filesystem::path& cache) : device_(device) {
    threads_ = static_cast<int>(device.facts().at("num_cores"));
    vector_bytes_ = static_cast<std::int64_t>(device.facts().at("vector_bits")) / 8;
    Variant variant;
    variant.source = kernels_source;
    for (const char* name :
         {"multiply_add", "dot_bf16", "copy", "read", "loads", "stores", "both", "streamed"}) {
      variant.manifest.launch.emplace_back();
      variant.manifest.launch.back().kernel = name;
    }
    CpuCompiler compiler({.cache = cache, .own_code = true});
    auto binary = compiler.compile(variant, {fmt::format("VECTOR_BYTES={}", vector_bytes_)}, 60.0);
    if (!binary)
      throw MissingError("the kernels that measure this device's peak rates do not compile: " +
                         binary.error().reason + "\n" + binary.error().diagnostics);
    binary_ = *binary;
  }

  // The shortest of many short runs, in seconds: on a busy machine a long run is always interrupted.
  double seconds(const char* kernel, int threads, int runs, std::size_t bytes, std::int64_t amount,
                 std::int64_t passes) {
    Plan plan;
    plan.buffers = {{"out", std::max<std::size_t>(bytes, 4096), PlannedBuffer::Use::workspace, false}};
    PlannedKernel launch;
    launch.kernel = kernel;
    launch.launch.set("threads", {threads});
    launch.args = {buffer(0)};
    if (bytes > 0) {
      plan.buffers.push_back({"from", bytes, PlannedBuffer::Use::workspace, false});
      launch.args.push_back(buffer(1));
    }
    launch.args.push_back(number(amount));
    if (bytes > 0) launch.args.push_back(number(passes));
    launch.args.push_back(special(PlannedArgument::Kind::thread));
    if (bytes > 0) launch.args.push_back(special(PlannedArgument::Kind::threads));
    plan.kernels = {launch};
    return shortest(plan, runs, false);
  }

  double shortest(const Plan& plan, int runs, bool flushed) {
    auto session = device_.open(binary_, plan, 20.0);
    if (!session) throw MissingError("cannot measure this device's peak rates: " + session.error().detail);
    handshake_ = static_cast<CpuSession&>(**session).handshake_s();
    // A run of hundreds of megabytes takes long to prepare; the shortest one was found if another is about as
    // short.
    const int fewest = std::max(4, runs / 3);
    constexpr double kSame = 1.03;
    double best = 1e9, second = 1e9;
    for (int i = 0; i <= runs; ++i) {
      if (i > fewest && second < kSame * best) break;
      RunOptions options;
      options.timed = flushed;
      auto sample = (*session)->run({}, {}, options);
      if (!sample && sample.error().kind == Fault::Kind::too_short) return 0.0;
      if (!sample) throw MissingError("cannot measure this device's peak rates: " + sample.error().detail);
      if (i == 0 || !(sample->seconds > 0)) continue;
      second = std::min(second, std::max(best, sample->seconds));
      best = std::min(best, sample->seconds);
    }
    return best;
  }

  Traffic traffic(double read_bytes, double written_bytes) {
    constexpr double kMost = 512.0 * (1 << 20);
    constexpr int kRuns = 5;
    const double scale = std::max(1.0, (read_bytes + written_bytes) / kMost);
    const auto vectors = [&](double bytes) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / scale) / vector_bytes_);
    };
    Traffic result{read_bytes, written_bytes};
    Plan plan;
    plan.buffers = {{"to", static_cast<std::size_t>(vectors(written_bytes) * vector_bytes_),
                     PlannedBuffer::Use::workspace, false},
                    {"from", static_cast<std::size_t>(vectors(read_bytes) * vector_bytes_),
                     PlannedBuffer::Use::workspace, false}};
    const auto us = [&](const char* kernel) {
      PlannedKernel launch;
      launch.kernel = kernel;
      launch.launch.set("threads", {threads_});
      launch.args = {buffer(0),
                     buffer(1),
                     number(vectors(written_bytes)),
                     number(vectors(read_bytes)),
                     special(PlannedArgument::Kind::thread),
                     special(PlannedArgument::Kind::threads)};
      plan.kernels = {launch};
      return 1e6 * scale * shortest(plan, kRuns, true);
    };
    result.loads_us = us("loads");
    result.stores_us = us("stores");
    result.both_us = us("both");
    if (vector_bytes_ >= 32) result.streamed_us = us("streamed");  // these registers have such stores
    return result;
  }

  // Arithmetic units and first-level caches belong to one core: one core is measured undisturbed, and the
  // result is multiplied by the number of cores. Memory bandwidth is shared, so it is measured with all cores
  // at once. Every run of one pass begins with cold caches, as a candidate's does.
  Ceilings measure() {
    const double cores = threads_, lanes = static_cast<double>(vector_bytes_) / 4.0;
    constexpr std::int64_t iterations = 100'000;
    constexpr double calls = 16.0 * iterations;
    Ceilings result;
    result.flops = cores * calls * lanes * 2.0 / seconds("multiply_add", 1, 100, 0, iterations, 1);
    // Without this instruction the kernel is empty and appears faster than any real kernel.
    const double bf16 = seconds("dot_bf16", 1, 100, 0, iterations, 1);
    if (calls * 1e-11 < bf16) result.flops = std::max(result.flops, cores * calls * lanes * 4.0 / bf16);

    constexpr double mebibyte = 1 << 20;
    const double beyond = std::clamp(2.0 * device_.facts().at("l3_bytes"), 64.0 * mebibyte, 256.0 * mebibyte);
    const auto far = static_cast<std::size_t>(beyond);
    result.bytes_per_second =
        std::max(2.0 * beyond / seconds("copy", threads_, 10, far, static_cast<std::int64_t>(far), 1),
                 beyond / seconds("read", threads_, 10, far, static_cast<std::int64_t>(far), 1));
    result.handshake_s = handshake_;
    constexpr double smallest = 8.0 * mebibyte, step = 4.0;
    const std::int64_t pages = 4096 * threads_;  // what `copy` divides evenly
    for (double bytes = smallest; bytes < beyond; bytes *= step) {
      const std::int64_t half = std::max(pages, static_cast<std::int64_t>(bytes / 2.0) / pages * pages);
      const double moved = 2.0 * static_cast<double>(half);
      result.cold.push_back(
          {moved, moved / seconds("copy", threads_, 4, static_cast<std::size_t>(half), half, 1)});
    }
    result.cold.push_back({beyond, result.bytes_per_second});
    constexpr std::int64_t inside = 8192, passes = 10'000;  // both buffers fit in a first-level cache
    constexpr double near = static_cast<double>(inside * passes);
    result.cached_bytes_per_second =
        std::max({cores * 2.0 * near / seconds("copy", 1, 100, inside, inside, passes),
                  cores * near / seconds("read", 1, 100, inside, inside, passes), result.bytes_per_second});
    return result;
  }

 private:
  Device& device_;
  Binary binary_;
  int threads_ = 1;
  std::int64_t vector_bytes_ = 16;
  double handshake_ = 0.0;
};

void raise_to(Ceilings& result, const Ceilings& known) {
  raise_rates(result, known);
  for (ColdRate& rate : result.cold)
    for (const ColdRate& before : known.cold)
      if (before.bytes == rate.bytes)
        rate.bytes_per_second = std::max(rate.bytes_per_second, before.bytes_per_second);
  // What a greater size reached is possible for a smaller one, too, whose run is short and easily disturbed.
  double most = result.bytes_per_second;
  for (auto rate = result.cold.rbegin(); rate != result.cold.rend(); ++rate)
    rate->bytes_per_second = most = std::max(most, rate->bytes_per_second);
}

}  // namespace

std::string processor_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

Facts cpu_facts() {
  const double l1 = cache_bytes(1), l2 = cache_bytes(2), l3 = cache_bytes(3);
  return {{"num_cores", static_cast<double>(usable_cores().size())},
          {"l1_bytes", l1 > 0 ? l1 : 32768.0},
          {"l2_bytes", l2 > 0 ? l2 : 1048576.0},
          {"l3_bytes", l3 > 0   ? l3
                       : l2 > 0 ? l2
                                : 1048576.0},
          {"vector_bits", vector_bits()},
          {"page_bytes", static_cast<double>(::sysconf(_SC_PAGESIZE))}};
}

struct CpuDevice::State {
  CpuDeviceOptions options;
  Sandbox sandbox;
  std::vector<int> cores = usable_cores();
  Facts facts = cpu_facts();
  std::optional<Ceilings> ceilings;

  std::string name() const { return fmt::format("{}, {} cores", processor_model(), cores.size()); }
};

CpuDevice::CpuDevice(CpuDeviceOptions options) : state_(std::make_unique<State>()) {
  auto& cell = options.cell;
  if (cell.empty()) cell = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "cultivar-cell";
  cell = std::filesystem::absolute(cell);
  if (find_program(cell.string()).empty())
    throw MissingError(fmt::format("{} is missing; build the target cultivar-cell", cell.string()));
  state_->options = std::move(options);
}

CpuDevice::~CpuDevice() = default;
const Facts& CpuDevice::facts() const {
  return state_->facts;
}

DeviceInfo CpuDevice::info() const {
  std::string isolation =
      "each candidate runs in a separate process with a seccomp filter (only waiting and anonymous memory "
      "allowed), no file descriptors, no clock, read-only inputs and limited memory";
  if (state_->sandbox.usable())
    isolation += ", inside bubblewrap without network, files or view of other processes";
  else
    isolation += fmt::format(", {}; not inside bubblewrap: {}", state_->sandbox.outside_in_words(),
                             state_->sandbox.obstacle());
  return {.description = fmt::format("{}, {} cores, {}-bit vectors, {} MiB last-level cache",
                                     processor_model(), state_->cores.size(), state_->facts.at("vector_bits"),
                                     state_->facts.at("l3_bytes") / (1 << 20)),
          .isolation = std::move(isolation),
          .weakness = {},
          .facts = state_->facts,
          .ceilings = {},
          .model = processor_model()};
}

void CpuDevice::describe(const Binary& binary, const Plan&, std::string_view source, Profile& profile) const {
  if (const auto use = vector_use_of(binary.path))
    profile.resources.insert(use->begin(), use->end());
  else
    profile.missing.push_back(fmt::format("vector widths: {}", use.error().message));
  if (auto loops = hot_loops_of(binary.path, source))
    profile.loops = std::move(*loops);
  else
    profile.missing.push_back(fmt::format("loops: {}", loops.error().message));
  profile.missing.push_back(
      "counters and stall reasons: the cpu target reads none; the findings follow from its machine code and "
      "its times");
}

const Ceilings& CpuDevice::ceilings() {
  if (!state_->ceilings) state_->ceilings = cpu_ceilings(*this, state_->name(), state_->options.cache);
  return *state_->ceilings;
}

const Ceilings& CpuDevice::raise_ceilings() {
  state_->ceilings = cpu_ceilings(*this, state_->name(), state_->options.cache, true);
  return *state_->ceilings;
}

Traffic CpuDevice::traffic(double read_bytes, double written_bytes) {
  return cpu_traffic(*this, state_->options.cache, read_bytes, written_bytes);
}

std::size_t CpuDevice::least_period() const {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

tl::expected<std::unique_ptr<Session>, Fault> CpuDevice::open_repeating(
    const Binary& binary, const Plan& plan, std::span<const Repetition> repetitions, double deadline_s) {
  BinaryCache::mark_used(binary.path);
  auto session = CpuSession::open({state_->options.cell, binary.path, state_->options.memory_bytes},
                                  state_->sandbox, plan, state_->cores, deadline_s, repetitions);
  if (!session) return tl::make_unexpected(session.error());
  return std::unique_ptr<Session>(std::move(*session));
}

tl::expected<std::unique_ptr<Session>, Fault> CpuDevice::open_contender(const ContenderFile& file,
                                                                        const ContenderSettings& settings,
                                                                        const Task& task,
                                                                        const Workload& workload) {
  auto session = HostContenderSession::open(file, settings, task, workload,
                                            static_cast<int>(state_->cores.size()), target_named("cpu"));
  if (!session) return tl::make_unexpected(session.error());
  return std::unique_ptr<Session>(std::move(*session));
}

Ceilings cpu_ceilings(Device& device, const std::string& name, const std::filesystem::path& cache,
                      bool again) {
  const std::string kept = name + " " + sha256_hex(kernels_source).substr(0, 16);
  const std::optional<Ceilings> known = kept_ceilings(cache, kept);
  if (known && !again) return *known;
  Ceilings result = Meter(device, cache).measure();
  raise_to(result, known.value_or(Ceilings{}));
  keep_ceilings(cache, kept, result);
  return result;
}

Traffic cpu_traffic(Device& device, const std::filesystem::path& cache, double read_bytes,
                    double written_bytes) {
  return Meter(device, cache).traffic(read_bytes, written_bytes);
}

}  // namespace cultivar
