// SPDX-License-Identifier: Apache-2.0
// Measures how many candidates a GPU evaluates per hour, and where the time goes: variants of a task go
// through all stages one after the other until the time limit.
//
//   bench-gpu-judgements TASK_FOLDER WORKLOADS SECONDS WORKERS compiled|fresh VARIANT[@TUNABLE=VALUE]...
//
// WORKERS share the card, as in a search. `compiled`: each variant is compiled once in advance; `fresh`:
// every candidate is a source that is in no cache and goes through NVRTC first, at most sixteen at once.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/worker/services.hpp"
#include "support/places.hpp"

using namespace cultivar;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Configuration configuration_of(const Variant& plain, const std::string& text) {
  Configuration wanted = plain.configuration;
  const std::size_t at = text.find('=');
  if (at == std::string::npos) throw InputError("not TUNABLE=VALUE: " + text);
  wanted[text.substr(0, at)] = std::atol(text.c_str() + at + 1);
  return wanted;
}

// Compiled candidates, prepared while others are evaluated.
class Supply {
 public:
  Supply(CompileService& compiler, const Task& task, std::vector<Variant> plain,
         const std::vector<Workload>& workloads, bool fresh)
      : compiler_(compiler), task_(task), plain_(std::move(plain)), workloads_(workloads), fresh_(fresh) {
    for (const Variant& variant : plain_) {
      const double start = now();
      ready_.push_back(made(variant, 0));
      fmt::print("{}: compiled in {:.2f} s\n", variant.manifest.name, now() - start);
    }
    if (!fresh_) return;
    for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, 16U); ++i)
      compilers_.emplace_back([this](std::stop_token stop) {
        while (!stop.stop_requested()) put(make());
      });
  }
  ~Supply() {
    for (std::jthread& thread : compilers_) thread.request_stop();
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  Compiled next() {
    std::unique_lock lock(mutex_);
    if (!fresh_) return ready_[taken_++ % ready_.size()];
    changed_.wait(lock, [&] { return !ready_.empty(); });
    Compiled first = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return first;
  }

 private:
  Compiled made(const Variant& plain, std::uint64_t salt) {
    Variant variant = plain;
    if (salt != 0) variant.source += fmt::format("\n// candidate {} of {}\n", salt, salt_);
    std::vector<Workload> claimed;
    for (const Workload& w : workloads_)
      if (claims(variant, task_, w)) claimed.push_back(w);
    auto compiled = compiler_.compile(variant, claimed);
    if (!compiled) throw InputError(compiled.error().reason + "\n" + compiled.error().diagnostics);
    return std::move(*compiled);
  }
  Compiled make() {
    const std::uint64_t number = ++made_;
    return made(plain_[number % plain_.size()], number);
  }
  void put(Compiled one) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || ready_.size() < 16; });
    ready_.push_back(std::move(one));
    changed_.notify_all();
  }

  CompileService& compiler_;
  const Task& task_;
  std::vector<Variant> plain_;
  const std::vector<Workload>& workloads_;
  bool fresh_, closed_ = false;
  std::uint64_t salt_ = static_cast<std::uint64_t>(now() * 1e6);
  std::atomic<std::uint64_t> made_{0};
  std::size_t taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Compiled> ready_;
  std::vector<std::jthread> compilers_;  // last: they end first
};

struct Totals {
  int judged = 0;
  double checks = 0.0, measuring = 0.0, kernels = 0.0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    fmt::print(stderr,
               "usage: {} TASK_FOLDER WORKLOADS SECONDS WORKERS compiled|fresh VARIANT[@TUNABLE=VALUE]...\n",
               argv[0]);
    return 2;
  }
  try {
    ServiceOptions options;
    options.target = target_named("cuda");
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = argv[1];
    options.compile_workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U));
    const Task task = load_task(options.task_folder);
    const WorkloadSet* set = task.workloads(argv[2]);
    if (set == nullptr) throw InputError(fmt::format("task {} has no workloads {}", task.name, argv[2]));
    std::vector<std::unique_ptr<DeviceService>> devices;
    for (int i = 0; i < std::max(1, std::atoi(argv[4])); ++i)
      devices.push_back(std::make_unique<DeviceService>(options));
    const auto info = devices.front()->info();
    if (!info) throw MissingError(info.error().message);
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    CompileService compiler(options);
    fmt::print("{}\n{}\nceilings: {:.0f} TFLOPS, {:.0f} GB/s, cached {:.0f} GB/s\n", info->description,
               info->isolation, info->ceilings.flops * 1e-12, info->ceilings.bytes_per_second * 1e-9,
               info->ceilings.cached_bytes_per_second * 1e-9);

    std::vector<Variant> variants;
    for (int i = 6; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t at = text.find('@');
      Variant variant = load_variant(text.substr(0, at), task);
      if (at != std::string::npos)
        variant = load_variant(text.substr(0, at), task, configuration_of(variant, text.substr(at + 1)));
      variants.push_back(std::move(variant));
    }
    Supply supply(compiler, task, variants, set->workloads, std::string(argv[5]) == "fresh");

    // The first evaluation of a worker includes one-time work, so it counts only for the rest.
    std::mutex mutex;
    Totals totals;
    const double limit = std::atof(argv[3]), start = now();
    const auto judge = [&](DeviceService& device) {
      while (now() - start < limit) {
        EvaluateRequest request;
        request.variant = supply.next();
        for (const Workload& w : set->workloads)
          if (claims(request.variant.variant, task, w)) request.workloads.push_back(w);
        const double before = now();
        const auto e = device.evaluate(request);
        if (!e) throw MissingError(e.error().message);
        const std::lock_guard lock(mutex);
        totals.judged += now() - start < limit;
        totals.checks += e->check_seconds;
        totals.measuring += e->measure_seconds;
        for (const WorkloadResult& w : e->workloads)
          for (const Sample& s : w.samples) totals.kernels += s.seconds;
        fmt::print("{}: {} {:.1f} {} in {:.2f} s (checks {:.2f}, measuring {:.2f}) {}\n",
                   request.variant.variant.manifest.name, e->measured() ? "measured" : name_of(e->stage),
                   e->fitness, e->unit, now() - before, e->check_seconds, e->measure_seconds, e->reason);
        if (!e->measured() && totals.judged < 3) fmt::print("{}\n", e->diagnostics);
        if (totals.judged <= static_cast<int>(devices.size() + variants.size()))
          for (const WorkloadResult& w : e->workloads)
            fmt::print(
                "  {:<40} {:>9.1f} us [{:.1f}, {:.1f}] {:>7.1f} {} n={} ({} discarded) {:.0f} MHz {:.0f} C "
                "{:.0f} W\n",
                w.workload, w.median_us, w.q1_us, w.q3_us, w.value, w.unit, w.samples.size(), w.discarded,
                w.samples.back().clock_mhz, w.samples.back().temperature_c, w.samples.back().power_w);
        if (!e->diagnostics.empty() && e->measured()) fmt::print("{}", e->diagnostics);
      }
    };
    std::vector<std::future<void>> judges;
    for (const auto& device : devices)
      judges.push_back(std::async(std::launch::async, [&judge, &device] { judge(*device); }));
    for (auto& one : judges) one.get();
    const double all = now() - start;  // evaluations in progress at the time limit have finished
    const double workers = static_cast<double>(devices.size());
    fmt::print(
        "judged {} in {:.1f} s by {} workers: {:.0f} an hour; of their time checks {:.0f} %, measuring "
        "{:.0f} %; kernels "
        "in counted samples {:.0f} % of the time\n",
        totals.judged, limit, devices.size(), 3600.0 * totals.judged / limit,
        100 * totals.checks / all / workers, 100 * totals.measuring / all / workers,
        100 * totals.kernels / all);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
