// SPDX-License-Identifier: Apache-2.0
// Checks the judge's clock: cuDNN timed by the judge, as a contender, and by a plain loop of events that
// shares only the library with the judge: it has its own stream, buffers, inputs and flush. Both alternate in
// random order, so that each sees the card at the same temperature. Prints for each workload both medians and
// the ratio of paired samples, and finally whether they agree within 1 %.
//
//   bench-cudnn-independent TASK_FOLDER WORKLOADS SECONDS [CONTENDER]
//
// Exit codes: 0 they agree, 1 they do not or something is wrong, 2 bad usage, 77 skipped: no GPU or no such
// contender.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "evaluators/check/oracle.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cuda/run/device.hpp"
#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/devices/cuda/run/sensors.hpp"
#include "evaluators/judge/sampler.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/random.hpp"
#include "support/places.hpp"

using namespace cultivar;

namespace {

constexpr double kAgreement = 0.01;
constexpr int kFewest = 12, kMost = 60, kWarmUp = 10;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Flush, event, launch, event, wait: the usual way to time a launch.
class PlainLoop {
 public:
  PlainLoop(const cuda::Driver& driver, const ContenderLibrary& library, const Task& task,
            const Workload& workload, std::size_t l2_bytes)
      : driver_(driver), task_(task), workload_(workload), flush_bytes_(2 * l2_bytes) {
    must(driver_.StreamCreate(&stream_, cuda::flag::stream_non_blocking));
    must(driver_.EventCreate(&begin_, cuda::flag::event_default));
    must(driver_.EventCreate(&end_, cuda::flag::event_default));
    must(driver_.MemAlloc(&flush_, flush_bytes_));
    std::mt19937_64 random(secret_seed());
    for (const TensorSpec& tensor : task.tensors) {
      const std::size_t bytes = task.bytes_of(tensor, workload);
      must(driver_.MemAlloc(&addresses_.emplace_back(), bytes));
      pointers_.push_back(reinterpret_cast<void*>(addresses_.back()));
      if (tensor.role == Role::output) continue;
      inputs_.push_back(normals(task.dtype(tensor, workload), bytes, random));
      must(driver_.MemcpyHtoDAsync(addresses_.back(), inputs_.back().data(), bytes, stream_));
    }
    must(driver_.StreamSynchronize(stream_));
    auto prepared = PreparedContender::prepare(library, {task, workload, pointers_, 0, stream_});
    if (!prepared) throw MissingError(workload.name + ": " + prepared.error().message);
    contender_ = std::move(*prepared);
    must(driver_.CtxSynchronize());
  }
  ~PlainLoop() {
    contender_.reset();
    for (const cuda::Address address : addresses_) driver_.MemFree(address);
    driver_.MemFree(flush_);
    driver_.EventDestroy(begin_);
    driver_.EventDestroy(end_);
    driver_.StreamDestroy(stream_);
  }
  PlainLoop(const PlainLoop&) = delete;

  double seconds() {
    must(driver_.CtxResetPersistingL2Cache());
    must(driver_.MemsetD8Async(flush_, static_cast<unsigned char>(++runs_), flush_bytes_, stream_));
    must(driver_.EventRecord(begin_, stream_));
    if (const auto launched = contender_->launch(pointers_, stream_, 10.0); !launched)
      throw std::runtime_error(launched.error().message);
    must(driver_.EventRecord(end_, stream_));
    must(driver_.StreamSynchronize(stream_));
    float ms = 0.0f;
    must(driver_.EventElapsedTime(&ms, begin_, end_));
    return 1e-3 * static_cast<double>(ms);
  }

  const std::vector<std::vector<std::byte>>& inputs() const { return inputs_; }
  std::vector<std::vector<std::byte>> outputs() {
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = 0; i < task_.tensors.size(); ++i) {
      if (task_.tensors[i].role != Role::output) continue;
      std::vector<std::byte>& bytes = all.emplace_back(task_.bytes_of(task_.tensors[i], workload_));
      must(driver_.MemcpyDtoHAsync(bytes.data(), addresses_[i], bytes.size(), stream_));
    }
    must(driver_.StreamSynchronize(stream_));
    return all;
  }

 private:
  void must(cuda::Result result) const { driver_.must(result, "the plain loop"); }

  // A repeated block of random values; neither caches nor multipliers benefit from the repetition.
  static std::vector<std::byte> normals(Dtype dtype, std::size_t bytes, std::mt19937_64& random) {
    std::vector<double> values((std::size_t{1} << 20) + 77);
    std::normal_distribution<double> normal;
    for (double& value : values) value = normal(random);
    std::vector<std::byte> stretch(values.size() * size_of(dtype)), all(bytes);
    encode(dtype, values, stretch);
    for (std::size_t at = 0; at < bytes; at += stretch.size())
      std::memcpy(all.data() + at, stretch.data(), std::min(stretch.size(), bytes - at));
    return all;
  }

  const cuda::Driver& driver_;
  const Task& task_;
  const Workload& workload_;
  std::size_t flush_bytes_;
  cuda::Stream stream_ = nullptr;
  cuda::Event begin_ = nullptr, end_ = nullptr;
  cuda::Address flush_ = 0;
  std::vector<cuda::Address> addresses_;
  std::vector<void*> pointers_;
  std::vector<std::vector<std::byte>> inputs_;
  std::unique_ptr<PreparedContender> contender_;
  unsigned runs_ = 0;
};

struct Bench {
  const Task& task;
  std::filesystem::path file;
  ContenderLibrary library;
  Device& device;
  TaskReference oracle;
  const cuda::Driver& driver;
  cuda::Sensors sensors;
  std::shared_ptr<TimingStock> stock = std::make_shared<TimingStock>();

  // The ratio judge / plain, the median of pairs.
  double compare(const Workload& w, double seconds) {
    const double start = now();
    TimedRuns runs(task, oracle, w, secret_seed(), 24, 10.0, cores_of(device.facts()), stock,
                   InputSource::windows);
    runs.work_beside_runs();
    SampledSide judge{library.name(), [&]() -> tl::expected<std::unique_ptr<Session>, Evaluation> {
                        auto opened = device.open_contender({file}, {}, task, w);
                        if (!opened)
                          return tl::make_unexpected(rejection_of(Stage::measure, opened.error(), w.name));
                        return std::move(*opened);
                      }};
    PlainLoop plain(driver, library, task, w, static_cast<std::size_t>(device.facts().at("l2_bytes")));
    const auto judged = [&] {
      runs.next();
      auto sample = runs.time(judge);
      if (!sample) throw std::runtime_error(sample.error().reason + "\n" + sample.error().diagnostics);
      return *sample;
    };
    for (int i = 0; i < kWarmUp; ++i) {
      plain.seconds();
      runs.next();
      if (const auto warm = runs.warm(judge); !warm)
        throw std::runtime_error(warm.error().reason + "\n" + warm.error().diagnostics);
    }
    // The plain loop's outputs are those that the judge gets from the same inputs; the judge's own are
    // checked against the oracle, one sample after the other.
    std::vector<std::vector<std::byte>> outputs(plain.outputs().size());
    const auto again = judge.session->run(plain.inputs(), outputs, {});
    if (!again) throw std::runtime_error(again.error().detail);
    if (outputs != plain.outputs())
      throw std::runtime_error("the plain loop computes something else on " + w.name);

    std::mt19937_64 order(secret_seed());
    std::vector<double> ours, theirs, ratios, clocks, after, power;
    while (static_cast<int>(ratios.size()) < kMost &&
           (static_cast<int>(ratios.size()) < kFewest || now() - start < seconds)) {
      const bool judge_first = order() % 2 == 0;
      double other = 0.0;
      if (!judge_first) other = plain.seconds();
      const Sample sample = judged();
      if (judge_first) other = plain.seconds();
      const cuda::Reading reading = sensors.read();
      ours.push_back(sample.seconds);
      theirs.push_back(other);
      ratios.push_back(sample.seconds / other);
      clocks.push_back(sample.clock_mhz);
      after.push_back(reading.clock_mhz);
      power.push_back(reading.power_w);
    }
    const Quartiles q = quartiles(ratios), a = quartiles(ours), b = quartiles(theirs);
    const Interval interval = bootstrap_interval(
        ratios,
        [](std::span<const double> values) {
          return median({values.begin(), values.end()});
        },
        0.95, 1);
    fmt::print(
        "{:<33} judge/plain {:.4f} [{:.4f}, {:.4f}] 95% {:.4f}..{:.4f} n={}; judge {:.1f} us [{:.1f}, "
        "{:.1f}] "
        "{:.1f} TFLOPS; plain {:.1f} [{:.1f}, {:.1f}]; {:.0f} MHz ({:.0f} after), {:.0f} W, {} discarded\n",
        w.name, q.median, q.q1, q.q3, interval.lower, interval.upper, ratios.size(), 1e6 * a.median,
        1e6 * a.q1, 1e6 * a.q3, 1e-12 * task.flops(w) / a.median, 1e6 * b.median, 1e6 * b.q1, 1e6 * b.q3,
        median(clocks), median(after), median(power), judge.discarded);
    std::fflush(stdout);
    return q.median;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fmt::print(stderr, "usage: {} TASK_FOLDER WORKLOADS SECONDS [CONTENDER]\n", argv[0]);
    return 2;
  }
  try {
    const Task task = load_task(argv[1]);
    const WorkloadSet* set = task.workloads(argv[2]);
    if (set == nullptr) throw InputError(fmt::format("task {} has no workloads {}", task.name, argv[2]));
    const std::filesystem::path programs = testing::programs_folder();
    std::unique_ptr<Device> device;
    std::filesystem::path file;
    try {
      file = find_contender_library(argc == 5 ? argv[4] : "cudnn", ".", programs, {}).library;
      device = open_cuda_device(0, testing::tests_cache(), programs / "cultivar-nvrtc");
    } catch (const std::exception& e) {
      fmt::print("skipped: {}\n", e.what());
      return 77;
    }
    const auto driver = cuda::load_driver();
    const auto library = ContenderLibrary::load(file, task, target_named("cuda"));
    auto oracle = open_reference(task, testing::tests_cache());
    if (!library) throw MissingError(library.error().message);
    if (!oracle) throw MissingError(oracle.error().message);
    cuda::DeviceHandle handle = 0;
    char bus[64] = "";
    (*driver)->must((*driver)->DeviceGet(&handle, 0), "finding the GPU");
    (*driver)->must((*driver)->DeviceGetPCIBusId(bus, sizeof bus, handle), "naming the GPU");
    fmt::print("{}\n{}, {}\n", device->info().description, library->name(), library->version());
    Bench bench{task, file, *library, *device, *oracle, **driver, cuda::Sensors(bus)};

    const double seconds = std::atof(argv[3]), start = now();
    double logs = 0.0, worst = 0.0;
    for (std::size_t i = 0; i < set->workloads.size(); ++i) {
      const double left = seconds - (now() - start);
      const double ratio =
          bench.compare(set->workloads[i], left / static_cast<double>(set->workloads.size() - i));
      logs += std::log(ratio);
      worst = std::max(worst, std::abs(ratio - 1.0));
    }
    const double mean = std::exp(logs / static_cast<double>(set->workloads.size()));
    const bool agree = std::abs(mean - 1.0) <= kAgreement && worst <= kAgreement;
    fmt::print(
        "independent: judge/plain of {} {:.4f} over {} workloads of {}, worst off by {:.2f} %: {} 1 %\n",
        library->name(), mean, set->workloads.size(), set->name, 100.0 * worst,
        agree ? "within" : "NOT within");
    return agree ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
