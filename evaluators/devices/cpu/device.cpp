// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "evaluators/profile/disassembly.hpp"
#include "evaluators/profile/hot_loops.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/system/cores.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/devices/cpu/ceilings.hpp"
#include "evaluators/devices/cpu/contender_session.hpp"
#include "evaluators/devices/cpu/device_facts.hpp"
#include "evaluators/devices/cpu/session.hpp"

namespace cultivar {

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

std::string CpuDevice::description() const {
  return fmt::format("{}, {} cores, {}-bit vectors, {} MiB last-level cache", processor_model(),
                     state_->cores.size(), state_->facts.at("vector_bits"),
                     state_->facts.at("l3_bytes") / (1 << 20));
}

std::string CpuDevice::model() const {
  return processor_model();
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
      "its "
      "times");
}

std::string CpuDevice::isolation() const {
  const std::string always =
      "each candidate runs in a separate process with a seccomp filter (only waiting and anonymous memory "
      "allowed), no file descriptors, no clock, read-only inputs and limited memory";
  if (state_->sandbox.usable())
    return always + ", inside bubblewrap without network, files or view of other processes";
  return fmt::format("{}, {}; not inside bubblewrap: {}", always, state_->sandbox.outside_in_words(),
                     state_->sandbox.obstacle());
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

tl::expected<std::unique_ptr<Session>, Fault> CpuDevice::open(const Binary& binary, const Plan& plan,
                                                              double deadline_s) {
  return open_repeating(binary, plan, {}, deadline_s);
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
  auto session =
      CpuContenderSession::open(file, settings, task, workload, static_cast<int>(state_->cores.size()));
  if (!session) return tl::make_unexpected(session.error());
  return std::unique_ptr<Session>(std::move(*session));
}

}  // namespace cultivar
