// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "evaluators/devices/cpu/ceilings.hpp"
#include "evaluators/devices/cpu/contender_session.hpp"
#include "evaluators/devices/cpu/session.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/system/cores.hpp"

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

}  // namespace cultivar
