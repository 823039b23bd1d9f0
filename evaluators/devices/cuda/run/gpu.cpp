// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "evaluators/devices/cuda/code/known_devices.hpp"

namespace cultivar::cuda {
namespace {

constexpr double kFirstAnswerSeconds = 20.0;
// No MissingError: they may end by themselves, so a search waits.
constexpr const char* kEndOthers = "end other programs that use it (`nvidia-smi` lists them)";
// Poll without sleeping during short work, for exact times; during long work leave the core to others.
constexpr auto kPollExactly = std::chrono::milliseconds(200);

}  // namespace

Gpu::Gpu(int index, const std::filesystem::path& cache, const std::filesystem::path& program) {
  // Load code before a kernel blocks the stream: lazy loading would wait for that kernel to finish.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  auto driver = load_driver();
  if (!driver) throw MissingError(driver.error().message);
  driver_ = *driver;
  int count = 0;
  driver_->must(driver_->DeviceGetCount(&count), "counting GPUs");
  if (index < 0 || index >= count)
    throw MissingError(
        fmt::format("there is no CUDA device {}; this machine has {}, counted from 0", index, count));
  driver_->must(driver_->DeviceGet(&handle_, index), "finding the GPU");
  if (capability() < 80)
    throw MissingError(
        fmt::format("{} has compute capability {}; compute capability 80 (Ampere) or later is required",
                    name(), capability()));
  turns_.emplace(cache / ("turns-" + uuid()));
  driver_->DevicePrimaryCtxSetFlags(handle_, flag::context_spin);
  const Result opened = driver_->DevicePrimaryCtxRetain(&context_, handle_);
  if (opened == result::out_of_memory)
    throw std::runtime_error(fmt::format("{} has no free memory; {}", name(), kEndOthers));
  driver_->must(opened, "opening the GPU");
  driver_->must(driver_->CtxSetCurrent(context_), "opening the GPU");
  driver_->must(driver_->StreamCreate(&stream_, flag::stream_non_blocking), "opening the GPU");
  driver_->must(driver_->EventCreate(&done_, flag::event_default), "opening the GPU");
  allocate_alone();
  facts_ = {{"num_sms", attribute(attribute::multiprocessors)},
            {"smem_max", attribute(attribute::shared_optin)},
            {"l2_bytes", attribute(attribute::l2_bytes)},
            {"registers_max", attribute(attribute::registers_of_multiprocessor)},
            {"threads_max", attribute(attribute::threads_of_multiprocessor)},
            {"compute_capability", capability()}};
  sensors_ = std::make_unique<Sensors>(bus_id());
  const std::vector<std::byte> code = own_machine_code(architecture_of(capability()), cache, program);
  kernels_ = std::make_unique<OwnKernels>(*driver_, stream_, code, attribute(attribute::multiprocessors),
                                          attribute(attribute::shared_optin));
  local_scrub_ = std::make_unique<LocalScrub>(*driver_, stream_, architecture_of(capability()), cache,
                                              program, attribute(attribute::multiprocessors),
                                              attribute(attribute::threads_of_multiprocessor));
  local_scrub_->prepare(0);
  Result started = kernels_->nothing();
  const std::optional<Fault> silent = started == result::success
                                          ? wait(deadline_in(kFirstAnswerSeconds), "an empty kernel")
                                          : fault_of(started, "starting an empty kernel");
  if (silent) throw MissingError(fmt::format("{} does not respond: {}", name(), silent->detail));

  const auto multiprocessors = static_cast<std::size_t>(attribute(attribute::multiprocessors));
  tools_.flag = mapped(2 * sizeof(std::uint32_t));
  tools_.stamps = mapped(2 * 2 * multiprocessors * sizeof(std::uint64_t));
  tools_.findings = mapped(sizeof(Findings));
  auto found = DeviceMemory::allocate(*this, sizeof(Findings));
  if (!found) throw std::runtime_error(fmt::format("{} has no free memory; {}", name(), kEndOthers));
  tools_.found = std::move(*found);
  driver_->must(driver_->EventCreate(&tools_.begin, flag::event_default), "opening the GPU");
  driver_->must(driver_->EventCreate(&tools_.end, flag::event_default), "opening the GPU");
}

int Gpu::attribute(int which) const {
  int value = 0;
  driver_->must(driver_->DeviceGetAttribute(&value, which, handle_), "reading a GPU's attribute");
  return value;
}

std::string Gpu::name() const {
  std::array<char, 256> text{};
  driver_->must(driver_->DeviceGetName(text.data(), static_cast<int>(text.size()) - 1, handle_),
                "reading a GPU's name");
  return text.data();
}

std::string Gpu::bus_id() const {
  std::array<char, 64> text{};
  driver_->must(driver_->DeviceGetPCIBusId(text.data(), static_cast<int>(text.size()) - 1, handle_),
                "reading a GPU's bus ID");
  return text.data();
}

std::string Gpu::uuid() const {
  std::array<unsigned char, 16> bytes{};
  driver_->must(driver_->DeviceGetUuid(bytes.data(), handle_), "reading a GPU's UUID");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

double Gpu::default_clock_mhz() const {
  const double said = sensors_->default_clock_mhz();
  return said > 0.0 ? said : attribute(attribute::clock_khz) / 1000.0;
}

Fault Gpu::fault_of(Result code, const std::string& while_doing) {
  const std::string words = fmt::format("{}: {}", while_doing, driver_->words(code));
  if (code == result::out_of_memory) return {Fault::Kind::out_of_memory, words};
  const bool broken = code == result::illegal_address || code == result::ecc_uncorrectable || code == 702 ||
                      (code >= result::first_sticky && code <= result::last_sticky) || code == 999;
  if (!broken) return {Fault::Kind::launch_failed, words};
  lose();
  return {Fault::Kind::crashed,
          words +
              "\nLook for indices beyond a buffer and unaligned vector accesses, for this "
              "shape."};
}

std::optional<Fault> Gpu::wait(Clock::time_point deadline, const std::string& what) {
  if (const Result marked = driver_->EventRecord(done_, stream_); marked != result::success)
    return fault_of(marked, what);
  const Clock::time_point start = Clock::now();
  while (true) {
    const Result state = driver_->EventQuery(done_);
    if (state == result::success) return std::nullopt;
    if (state != result::not_ready) return fault_of(state, what);
    const Clock::time_point now = Clock::now();
    if (now > deadline) {
      lose();
      return Fault{Fault::Kind::timed_out,
                   fmt::format("{} did not finish within {:.1f} s", what, in_seconds(now - start))};
    }
    if (now - start > kPollExactly) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Gpu::allocate_alone() {
  // Under compute-sanitizer, allocations must end where a tensor ends.
  int supported = 0;
  MemoryProperties properties;
  properties.device = handle_;
  if (std::getenv("CULTIVAR_SANITIZED") != nullptr || !driver_->maps_memory() ||
      driver_->DeviceGetAttribute(&supported, attribute::memory_mapping, handle_) != result::success ||
      supported == 0 ||
      driver_->MemGetAllocationGranularity(&memory_grain_, &properties, 0) != result::success)
    memory_grain_ = 0;
  // Some virtual machines offer these functions, and refuse their calls.
  if (memory_grain_ != 0 && !DeviceMemory::allocate(*this, 1)) memory_grain_ = 0;
}

void Gpu::allocate_plainly() {
  memory_grain_ = 0;
  for (DeviceMemory* memory : {&left_, &flush_}) *memory = DeviceMemory();
}

std::optional<DeviceMemory> Gpu::take_memory(std::size_t bytes) {
  if (left_.size() == bytes && bytes > 0) return std::exchange(left_, DeviceMemory());
  auto memory = DeviceMemory::allocate(*this, bytes);
  if (!memory) {
    left_ = DeviceMemory();
    residents_.evict_all();
    memory = DeviceMemory::allocate(*this, bytes);
  }
  return memory;
}

Fault Gpu::lack_of_memory(std::size_t bytes, const std::string& what) const {
  std::size_t free = 0, total = 0;
  if (driver_->MemGetInfo(&free, &total) != result::success) return {Fault::Kind::out_of_memory, what};
  return cuda::lack_of_memory({total, free, allocated_}, bytes, what);
}

MappedMemory Gpu::mapped(std::size_t bytes) const {
  MappedMemory memory;
  driver_->must(driver_->MemHostAlloc(&memory.host, bytes, flag::host_mapped),
                "sharing host memory with the GPU");
  driver_->must(driver_->MemHostGetDevicePointer(&memory.device, memory.host, 0),
                "sharing host memory with the GPU");
  std::memset(memory.host, 0, bytes);
  return memory;
}

const DeviceMemory& Gpu::flush_memory() {
  if (flush_.size() == 0) {
    auto memory = DeviceMemory::allocate(*this, 2 * static_cast<std::size_t>(attribute(attribute::l2_bytes)));
    if (!memory)
      throw std::runtime_error(
          fmt::format("{} has too little free memory for flushing its cache; {}", name(), kEndOthers));
    flush_ = std::move(*memory);
  }
  return flush_;
}

}  // namespace cultivar::cuda
