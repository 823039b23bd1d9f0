// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/devices/cuda/run/ceilings.hpp"
#include "evaluators/devices/cuda/run/describe.hpp"
#include "evaluators/devices/cuda/run/instruments.hpp"
#include "evaluators/devices/cuda/run/pageable_memory.hpp"
#include "evaluators/devices/cuda/run/session.hpp"
#include "evaluators/devices/cuda/run/visible_gpu.hpp"

namespace cultivar {
namespace cuda {
namespace {

// False: no kernel is checked beyond 2^31 elements (judge/large_check.hpp). Memory that repeats has not been
// tried on a GPU yet.
constexpr bool kRepeats = false;

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const std::filesystem::path& cache, const std::filesystem::path& compiler)
      : cache_(cache), gpu_(index, cache, compiler) {}

  const Facts& facts() const override { return gpu_.facts(); }

  std::string description() const override {
    int version = 0;
    gpu_.driver().must(gpu_.driver().DriverGetVersion(&version), "reading the driver version");
    return fmt::format("{}, {} multiprocessors at {:.0f} MHz, {} MiB of L2, sm_{}, driver of CUDA {}.{}",
                       gpu_.name(), facts().at("num_sms"), gpu_.default_clock_mhz(),
                       static_cast<long>(facts().at("l2_bytes")) >> 20, gpu_.capability(), version / 1000,
                       version % 1000 / 10);
  }

  std::string model() const override { return gpu_.name(); }

  std::string isolation() const override {
    std::string words =
        "candidates are device code only, in this worker's GPU context: a new context after any fault, "
        "buffers between guards at changing addresses, no expected values on the device, registers, shared "
        "and "
        "local memory overwritten between runs";
    if (!gpu_.maps_memory()) words += "; the judge's memory is not at random addresses";
    if (const std::string& why = gpu_.trace_obstacle(); !why.empty())
      words += "; CUPTI does not verify which kernels run (" + why + ")";
    if (const std::string& why = gpu_.sensors().obstacle(); !why.empty())
      words += "; clocks are measured but temperature and power are not read (" + why + ")";
    return words;
  }

  const Ceilings& ceilings() override {
    if (ceilings_) return *ceilings_;
    const Turns::Turn turn = gpu_.turn();
    ceilings_ = ceilings_of(gpu_, cache_);
    return *ceilings_;
  }

  const Ceilings& raise_ceilings() override {
    const Turns::Turn turn = gpu_.turn();
    ceilings_ = raised_ceilings(gpu_, cache_, ceilings());
    return *ceilings_;
  }

  tl::expected<std::unique_ptr<Session>, Fault> open(const Binary& binary, const Plan& plan,
                                                     double deadline_s) override {
    return open_repeating(binary, plan, {}, deadline_s);
  }

  std::size_t least_period() const override { return kRepeats ? gpu_.memory_grain() : 0; }
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary& binary, const Plan& plan,
                                                               std::span<const Repetition> repetitions,
                                                               double) override {
    BinaryCache::mark_used(binary.path);
    auto session = CudaSession::open(gpu_, binary, plan, repetitions);
    if (!session) return tl::make_unexpected(session.error());
    return std::unique_ptr<Session>(std::move(*session));
  }

  tl::expected<std::unique_ptr<Session>, Fault> open_contender(const ContenderFile& file,
                                                               const ContenderSettings& settings,
                                                               const Task& task,
                                                               const Workload& workload) override {
    auto session = CudaSession::open_contender(gpu_, file, settings, task, workload);
    if (!session) return tl::make_unexpected(session.error());
    return std::unique_ptr<Session>(std::move(*session));
  }

  std::string weakness() const override { return pageable_memory_obstacle(gpu_); }

  bool usable() const override { return !gpu_.lost(); }
  void while_waiting(std::function<void()> call) override { gpu_.turns().while_waiting(std::move(call)); }
  void hasten(bool ahead) override { gpu_.turns().hasten(ahead); }
  bool keeps_stretches() const override { return true; }
  bool apart_from_host() const override { return true; }

  void describe(const Binary& binary, const Plan& plan, std::string_view /*source*/,
                Profile& profile) const override {
    describe_kernels(binary, plan, facts(), profile);
  }
  std::string throttle_words(std::uint64_t reasons) const override { return cuda::throttle_words(reasons); }

  Instruments* instruments() override {
    if (!instruments_) instruments_ = make_instruments(gpu_);
    return instruments_.get();
  }

 private:
  std::filesystem::path cache_;
  Gpu gpu_;
  std::optional<Ceilings> ceilings_;
  std::unique_ptr<Instruments> instruments_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Device> open_cuda_device(int index, const std::filesystem::path& cache,
                                         const std::filesystem::path& compiler) {
  // The driver initializes every visible GPU and waits for one that is wedged, so make only this GPU visible.
  const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
  const auto own = visible_gpu(listed != nullptr ? std::optional<std::string>(listed) : std::nullopt, index);
  if (!own) throw MissingError(own.error().message);
  if (listed == nullptr) ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);  // the numbers of nvidia-smi
  ::setenv("CUDA_VISIBLE_DEVICES", own->c_str(), 1);
  try {
    return std::make_unique<cuda::CudaDevice>(0, cache, compiler);
  } catch (const MissingError& e) {
    throw MissingError(fmt::format("GPU {}: {}", index, e.what()));
  }
}

}  // namespace cultivar
