// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/device.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <vector>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/line_table.hpp"
#include "evaluators/devices/cuda/code/metric_sets.hpp"
#include "evaluators/devices/cuda/run/counters.hpp"
#include "evaluators/devices/cuda/run/device_memory.hpp"
#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/devices/cuda/run/pc_sampling.hpp"
#include "evaluators/devices/cuda/run/session.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

namespace cuda {
namespace {

constexpr double kDeadlineSeconds = 20.0;
constexpr std::size_t kCopyBytes = std::size_t{1} << 30;
// The latest architecture whose matrix units the kernels of own_kernels.cu can saturate.
constexpr int kLastKnownCapability = 90;

class Meter {
 public:
  explicit Meter(Gpu& gpu) : gpu_(gpu) {}

  // The shortest of `runs` launches, in seconds.
  template <class Launch>
  double seconds(int runs, const Launch& launch) {
    const Driver& driver = gpu_.driver();
    double best = 1e9;
    for (int i = 0; i <= runs; ++i) {
      driver.must(driver.EventRecord(gpu_.tools().begin, gpu_.stream()), "measuring peak rates");
      driver.must(launch(), "measuring peak rates");
      driver.must(driver.EventRecord(gpu_.tools().end, gpu_.stream()), "measuring ceilings");
      if (const auto fault = gpu_.wait(deadline_in(kDeadlineSeconds), "a kernel that measures peak rates"))
        throw MissingError(fault->detail);
      float ms = 0.0f;
      driver.must(driver.EventElapsedTime(&ms, gpu_.tools().begin, gpu_.tools().end), "measuring peak rates");
      if (i > 0) best = std::min(best, static_cast<double>(ms) * 1e-3);
    }
    return best;
  }

  Ceilings measure() {
    const OwnKernels& own = gpu_.kernels();
    const auto memory = [&](std::size_t bytes) {
      auto allocated = DeviceMemory::allocate(gpu_, bytes);
      if (!allocated)
        throw std::runtime_error(
            "the GPU has too little free memory to measure its peak rates; free some and try again");
      gpu_.driver().must(own.poison(allocated->address(), bytes, 1), "measuring peak rates");
      return std::move(*allocated);
    };
    const DeviceMemory from = memory(kCopyBytes), to = memory(kCopyBytes);
    Ceilings result;
    result.bytes_per_second =
        2.0 * kCopyBytes / seconds(20, [&] { return own.copy(to.address(), from.address(), kCopyBytes); });
    result.bytes_per_second =
        std::max(result.bytes_per_second, 1.0 * kCopyBytes / seconds(10, [&] {
                                            return own.read(from.address(), kCopyBytes, 1, to.address());
                                          }));
    const std::size_t near = static_cast<std::size_t>(gpu_.attribute(attribute::l2_bytes)) / 4;
    constexpr std::uint32_t passes = 64;
    result.cached_bytes_per_second =
        std::max(static_cast<double>(near) * passes /
                     seconds(10, [&] { return own.read(from.address(), near, passes, to.address()); }),
                 result.bytes_per_second);
    result.handshake_s = seconds(50, [&] { return own.nothing(); });
    const int capability = gpu_.capability();
    if (capability <= kLastKnownCapability) {
      double flops = 0.0;
      const double took = seconds(20, [&] { return own.matrix(4000, to.address(), capability, &flops); });
      result.flops = flops / took;
    }
    return result;
  }

 private:
  Gpu& gpu_;
};

std::string name_of(const Gpu& gpu) {
  int version = 0;
  gpu.driver().must(gpu.driver().DriverGetVersion(&version), "reading the driver version");
  return fmt::format("{} {} driver {}", gpu.name(), gpu.bus_id(), version);
}

// Peak rates of this card, measured by Cultivar's own kernels: no candidate can exceed them.
//
// Reads the cache if this card (name, bus and driver) was measured before; otherwise measures, which takes
// about one second, and writes the cache. The matrix rate is 0 on architectures whose fastest unit
// own_kernels.cu does not use. Throws MissingError when a kernel fails.
Ceilings ceilings_of(Gpu& gpu, const std::filesystem::path& cache) {
  if (const auto known = kept_ceilings(cache, name_of(gpu))) return *known;
  Ceilings result = Meter(gpu).measure();
  keep_ceilings(cache, name_of(gpu), result);
  return result;
}

// Measures again, keeps the greater of each value, and writes the cache.
Ceilings raised_ceilings(Gpu& gpu, const std::filesystem::path& cache, Ceilings known) {
  const Ceilings again = Meter(gpu).measure();
  raise_rates(known, again);
  known.handshake_s = std::min(known.handshake_s, again.handshake_s);
  keep_ceilings(cache, name_of(gpu), known);
  return known;
}

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

namespace {

std::vector<std::string> entries_of(const std::string& listed) {
  std::vector<std::string> entries;
  std::istringstream text(listed);
  for (std::string entry; std::getline(text, entry, ',');) {
    const std::size_t first = entry.find_first_not_of(' '), last = entry.find_last_not_of(' ');
    // The driver stops at the first invalid entry: "0,-1,2" shows one GPU.
    if (first == entry.npos || entry[first] == '-') break;
    entries.push_back(entry.substr(first, last - first + 1));
  }
  return entries;
}

}  // namespace

Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index) {
  if (!listed) return std::to_string(index);
  const std::vector<std::string> entries = entries_of(*listed);
  if (index < 0 || static_cast<std::size_t>(index) >= entries.size())
    return failure(ErrorKind::missing, "find the GPU",
                   fmt::format("CUDA_VISIBLE_DEVICES is '{}', which shows {} GPU{}; there is no "
                               "GPU number {} (numbers start at 0)",
                               *listed, entries.size(), entries.size() == 1 ? "" : "s", index));
  return entries[static_cast<std::size_t>(index)];
}

int visible_gpus(const std::optional<std::string>& listed) {
  if (listed) return static_cast<int>(entries_of(*listed).size());
  std::string ignored;
  void* const nvml =
      cuda::open_library({"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"}, &ignored);
  if (nvml == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)()>(::dlsym(nvml, "nvmlInit_v2"));
  const auto count = reinterpret_cast<int (*)(unsigned*)>(::dlsym(nvml, "nvmlDeviceGetCount_v2"));
  unsigned gpus = 0;
  return init != nullptr && count != nullptr && init() == 0 && count(&gpus) == 0 ? static_cast<int>(gpus) : 0;
}

}  // namespace cultivar
