// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "evaluators/devices/cpu/device.hpp"
#include "evaluators/devices/cpu/session.hpp"
#include "evaluators/devices/opencl/session.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/profile/profile.hpp"

namespace cultivar {
namespace {

// Of binaries whose code the driver has compiled for some sizes of groups.
constexpr std::size_t kMostFolders = 16;

struct CompiledFor {
  std::string machine_code;
  ScratchFolder folder;
};

}  // namespace

Facts opencl_facts(double compute_units, double group_max, double local_bytes_max, double cache_bytes,
                   double vector_floats) {
  return {{"compute_units", compute_units},
          {"group_max", group_max},
          {"local_bytes_max", local_bytes_max},
          {"cache_bytes", cache_bytes},
          {"vector_floats", vector_floats}};
}

struct OpenclDevice::State {
  explicit State(OpenclDeviceOptions o) : options(std::move(o)), program(options.program) {}

  OpenclDeviceOptions options;
  OpenclProgram program;
  Facts facts;
  std::unique_ptr<CpuDevice> processor;  // measures the ceilings that both targets have
  std::optional<Ceilings> ceilings;      // of a card
  std::list<CompiledFor> folders;        // the latest first

  CpuDevice& host() {
    if (!processor) processor = std::make_unique<CpuDevice>(CpuDeviceOptions{options.cache / "cpu"});
    return *processor;
  }
  const Ceilings& card_ceilings(bool again) {
    const std::string name = program.device().identity();
    if (!ceilings) ceilings = kept_ceilings(options.cache, name);
    if (ceilings && !again) return *ceilings;
    Ceilings measured = program.measured_ceilings();
    if (ceilings) {
      raise_rates(measured, *ceilings);
      measured.handshake_s = std::min(measured.handshake_s, ceilings->handshake_s);
    }
    keep_ceilings(options.cache, name, measured);
    return ceilings.emplace(std::move(measured));
  }
  const std::filesystem::path& folder_of(const Binary& binary) {
    const auto found = std::ranges::find(folders, binary.machine_code, &CompiledFor::machine_code);
    if (found != folders.end())
      folders.splice(folders.begin(), folders, found);
    else
      folders.push_front({binary.machine_code, ScratchFolder()});
    if (folders.size() > kMostFolders) folders.pop_back();
    return folders.front().folder.path();
  }
};

OpenclDevice::OpenclDevice(OpenclDeviceOptions options)
    : state_(std::make_unique<State>(std::move(options))) {
  const OpenclDeviceWords& words = state_->program.device();
  state_->facts = opencl_facts(words.compute_units, words.group_max, words.local_bytes_max, words.cache_bytes,
                               words.vector_floats);
}

OpenclDevice::~OpenclDevice() = default;

const Facts& OpenclDevice::facts() const {
  return state_->facts;
}

DeviceInfo OpenclDevice::info() const {
  const OpenclDeviceWords& words = state_->program.device();
  std::string description = fmt::format("{} ({}, driver {}), {} compute units", words.name, words.platform,
                                        words.driver, words.compute_units);
  if (words.others > 0) description += fmt::format("; {} further OpenCL devices are not used", words.others);
  std::string isolation = state_->program.isolation();
  if (words.processor)
    isolation +=
        "; each candidate in a process of its own, without system calls once it is compiled, read-only "
        "inputs";
  return {.description = std::move(description),
          .isolation = std::move(isolation),
          .weakness = {},  // the compiler's covers the cells too
          .facts = state_->facts,
          .ceilings = {},
          .model = words.identity()};
}

const Ceilings& OpenclDevice::ceilings() {
  return state_->program.device().processor ? state_->host().ceilings() : state_->card_ceilings(false);
}
const Ceilings& OpenclDevice::raise_ceilings() {
  return state_->program.device().processor ? state_->host().raise_ceilings() : state_->card_ceilings(true);
}
bool OpenclDevice::apart_from_host() const {
  return !state_->program.device().processor;
}

Traffic OpenclDevice::traffic(double read_bytes, double written_bytes) {
  return state_->program.device().processor ? state_->host().traffic(read_bytes, written_bytes) : Traffic{};
}

void OpenclDevice::describe(const Binary&, const Plan&, std::string_view, Profile& profile) const {
  profile.missing.emplace_back(
      "machine code, counters and stall reasons: the opencl target reads none; the findings follow from "
      "times");
}

tl::expected<std::unique_ptr<Session>, Fault> OpenclDevice::open_repeating(const Binary& binary,
                                                                           const Plan& plan,
                                                                           std::span<const Repetition>,
                                                                           double deadline_s) {
  BinaryCache::mark_used(binary.path);
  const bool processor = state_->program.device().processor, copies = state_->options.copies || !processor;
  // Drivers of cards reserve more addresses than they use memory.
  auto session = OpenclSession::open({state_->program, state_->folder_of(binary), binary.path, copies,
                                      processor ? state_->options.memory_bytes : 0, binary.counters},
                                     plan, deadline_s);
  if (!session) return tl::make_unexpected(session.error());
  return std::unique_ptr<Session>(std::move(*session));
}

tl::expected<std::unique_ptr<Session>, Fault> OpenclDevice::open_contender(const ContenderFile& file,
                                                                           const ContenderSettings& settings,
                                                                           const Task& task,
                                                                           const Workload& workload) {
  if (!state_->program.device().processor)
    return tl::make_unexpected(
        Fault{Fault::Kind::unsupported,
              "contender libraries are called only where OpenCL's device is the processor"});
  auto session = HostContenderSession::open(file, settings, task, workload,
                                            static_cast<int>(state_->program.device().compute_units),
                                            target_named("opencl"));
  if (!session) return tl::make_unexpected(session.error());
  return std::unique_ptr<Session>(std::move(*session));
}

}  // namespace cultivar
