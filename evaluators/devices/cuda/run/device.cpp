// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/geometry.hpp"
#include "evaluators/devices/cuda/code/line_table.hpp"
#include "evaluators/devices/cuda/code/metric_sets.hpp"
#include "evaluators/devices/cuda/code/occupancy.hpp"
#include "evaluators/devices/cuda/run/ceilings.hpp"
#include "evaluators/devices/cuda/run/counters.hpp"
#include "evaluators/devices/cuda/run/pageable_memory.hpp"
#include "evaluators/devices/cuda/run/pc_sampling.hpp"
#include "evaluators/devices/cuda/run/session.hpp"
#include "evaluators/devices/cuda/run/visible_gpu.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {
namespace cuda {
namespace {

// False: no kernel is checked beyond 2^31 elements (judge/large_check.hpp). Memory that repeats has not been
// tried on a GPU yet.
constexpr bool kRepeats = false;

// The counters and samplers of a GPU.
class CudaInstruments : public Instruments {
 public:
  explicit CudaInstruments(Gpu& gpu) : gpu_(gpu) { gpu_.allocate_plainly(); }
  ~CudaInstruments() override { gpu_.set_watch(nullptr); }

  Expected<void> begin_counting(bool full, std::size_t kernels, Replay replay) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    const auto plan = plan_for(**cupti, gpu_);
    if (!plan) return tl::make_unexpected(plan.error());
    metrics_.clear();
    absent_.clear();
    for (const Counter& counter : counters()) {
      if (!full && !counter.quick) continue;
      if (plan->has(std::string(counter.metric)))
        metrics_.emplace_back(counter.metric);
      else if (counter.everywhere)
        absent_.emplace_back(counter.key);
    }
    auto counting = RangeCounting::begin(**cupti, gpu_, metrics_, kernels, replay);
    if (!counting) return tl::make_unexpected(counting.error());
    counting_ = std::move(*counting);
    gpu_.set_watch(counting_.get());
    return {};
  }
  Expected<bool> counted() const override {
    if (!counting_) return failure("count", "counting has not started");
    return counting_->all_passes_done();
  }
  Expected<std::vector<CounterValues>> end_counting() override {
    if (!counting_) return failure("count", "counting has not started");
    gpu_.set_watch(nullptr);
    const auto values = counting_->end();
    counting_.reset();
    if (!values) return tl::make_unexpected(values.error());
    std::vector<CounterValues> of_kernels;
    for (const std::vector<double>& each : *values) of_kernels.push_back(by_key(metrics_, each));
    return of_kernels;
  }
  std::vector<std::string> absent() const override { return absent_; }
  std::size_t passes() const override { return counting_ ? counting_->passes() : 0; }

  Expected<void> begin_sampling(int period) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    auto sampling = PcSampling::begin(**cupti, gpu_, period);
    if (!sampling) return tl::make_unexpected(sampling.error());
    sampling_ = std::move(*sampling);
    gpu_.set_watch(sampling_.get());
    return {};
  }
  Expected<PcSamples> end_sampling(const std::filesystem::path& binary) override {
    if (!sampling_) return failure("sample", "sampling has not started");
    gpu_.set_watch(nullptr);
    auto samples = sampling_->end();
    sampling_.reset();
    if (!samples) return samples;
    const std::string code = read_file(binary).value_or("");
    if (const auto table = LineTable::read(std::as_bytes(std::span(code))))
      table->add_to(*samples);
    else
      samples->without_lines = table.error().message;
    return samples;
  }

 private:
  Gpu& gpu_;
  std::unique_ptr<RangeCounting> counting_;
  std::unique_ptr<PcSampling> sampling_;
  std::vector<std::string> metrics_, absent_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const std::filesystem::path& cache, const std::filesystem::path& compiler)
      : cache_(cache), gpu_(index, cache, compiler) {}

  const Facts& facts() const override { return gpu_.facts(); }

  DeviceInfo info() const override {
    int version = 0;
    gpu_.driver().must(gpu_.driver().DriverGetVersion(&version), "reading the driver version");
    return {.description =
                fmt::format("{}, {} multiprocessors at {:.0f} MHz, {} MiB of L2, sm_{}, driver of CUDA {}.{}",
                            gpu_.name(), facts().at("num_sms"), gpu_.default_clock_mhz(),
                            static_cast<long>(facts().at("l2_bytes")) >> 20, gpu_.capability(),
                            version / 1000, version % 1000 / 10),
            .isolation = isolation(),
            .weakness = pageable_memory_obstacle(gpu_),
            .facts = facts(),
            .ceilings = {},
            .model = gpu_.name()};
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

  std::size_t least_period() const override { return kRepeats ? gpu_.memory_grain() : 0; }
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary& binary, const Plan& plan,
                                                               std::span<const Repetition> repetitions,
                                                               double) override {
    BinaryCache::mark_used(binary.path);
    auto session = CudaSession::open(gpu_, binary, with_choices(plan, binary.chosen), repetitions);
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

  bool usable() const override { return !gpu_.lost(); }
  void while_waiting(std::function<void()> call) override { gpu_.turns().while_waiting(std::move(call)); }
  void hasten(bool ahead) override { gpu_.turns().hasten(ahead); }
  bool keeps_stretches() const override { return true; }
  bool apart_from_host() const override { return true; }

  void describe(const Binary& binary, const Plan& plan, std::string_view /*source*/,
                Profile& profile) const override {
    std::ifstream file(binary.path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    const auto cubin = read_cubin(std::as_bytes(std::span(bytes)));
    const MultiprocessorLimits limits = limits_of(facts());
    const Plan whole = with_choices(plan, binary.chosen);
    for (const PlannedKernel& planned : whole.kernels) {
      const Geometry g(planned.launch);
      KernelProfile& k = profile.kernels.emplace_back();
      k.name = planned.kernel;
      k.grid = g.grid;
      k.block = g.block;
      k.cluster = g.cluster;
      k.cooperative = g.cooperative;
      k.dynamic_shared_bytes = static_cast<int>(g.shared_bytes);
      const CubinKernel* const code = cubin ? cubin->kernel(planned.kernel) : nullptr;
      if (code == nullptr) continue;
      k.registers = static_cast<int>(code->registers);
      k.stack_bytes = static_cast<int>(code->stack_bytes);
      k.static_shared_bytes = static_cast<int>(code->shared_bytes);
      k.occupancy = occupancy(
          {static_cast<int>(product(g.block)), k.registers, k.static_shared_bytes + k.dynamic_shared_bytes},
          limits);
      k.waves = waves(product(g.grid), k.occupancy, limits);
    }
  }
  std::string throttle_words(std::uint64_t reasons) const override { return cuda::throttle_words(reasons); }

  Instruments* instruments() override {
    if (!instruments_) instruments_ = std::make_unique<CudaInstruments>(gpu_);
    return instruments_.get();
  }

 private:
  std::string isolation() const {
    std::string words =
        "candidates are device code only, in this worker's GPU context: a new context after any fault, "
        "buffers between guards at changing addresses, no expected values on the device, registers, shared "
        "and local memory overwritten between runs";
    if (!gpu_.maps_memory()) words += "; the judge's memory is not at random addresses";
    if (const std::string& why = gpu_.trace_obstacle(); !why.empty())
      words += "; CUPTI does not verify which kernels run (" + why + ")";
    if (const std::string& why = gpu_.sensors().obstacle(); !why.empty())
      words += "; clocks are measured but temperature and power are not read (" + why + ")";
    return words;
  }

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
