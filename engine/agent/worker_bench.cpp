#include "engine/agent/worker_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/agent/interruption.hpp"
#include "evaluators/targets/binary_cache.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {

WorkerBench::WorkerBench(BenchSettings settings)
    : settings_(std::move(settings)),
      task_(load_task(settings_.services.task_folder)),
      notes_(load_notes(settings_.knowledge)) {
  settings_.services.compile_workers = 1;
  settings_.sampling.max_samples = std::min(settings_.sampling.max_samples, kBenchmarkSamples);
  settings_.sampling.max_seconds = std::min(settings_.sampling.max_seconds, kBenchmarkSeconds);
}
WorkerBench::~WorkerBench() = default;

std::string WorkerBench::unit() const {
  if (task_.cost.by_bytes) return "GB/s";
  return target() == TargetKind::cpu ? "GFLOPS" : "TFLOPS";
}

std::optional<DeviceInfo> WorkerBench::device() const {
  const std::lock_guard lock(info_mutex_);
  return info_;
}

std::optional<Facts> WorkerBench::facts() const {
  if (const auto info = device()) return info->facts;
  return known_facts();
}

std::string WorkerBench::architecture() const {
  if (target() == TargetKind::cpu) return "";
  const auto numbers = facts();
  if (!numbers || !numbers->contains("compute_capability")) return settings_.services.architecture;
  return architecture_of(static_cast<int>(numbers->at("compute_capability")));
}

std::vector<Page> WorkerBench::pages() const {
  return {{"task", "what must be computed, how outputs are judged, the workloads that are timed"},
          {"variant_format", "how a kernel and its manifest are written"},
          {"device", "the numbers of the device, as expressions of a manifest see them"}};
}

template <class Result, class Ask>
Result WorkerBench::on_device(const Watch& watch, const Ask& ask) {
  const std::lock_guard lock(device_mutex_);
  if (!device_) device_ = std::make_unique<DeviceService>(settings_.services);
  Result result = [&] {
    const Interruption when_over(watch, [&] { device_->interrupt(); });
    learn(*device_);
    return ask(*device_);
  }();
  if (watch.over()) device_.reset();  // its worker was killed, or may be at any instant
  return result;
}

void WorkerBench::learn(DeviceService& service) {
  if (device()) return;
  auto info = service.info();
  const std::lock_guard lock(info_mutex_);
  asked_ = true;
  if (info) info_ = std::move(*info);
}

void WorkerBench::ask_device(const Watch& watch) {
  {
    const std::lock_guard lock(info_mutex_);
    if (asked_) return;
  }
  on_device<int>(watch, [](DeviceService&) { return 0; });
}

// What is known without the device is good enough; where nothing is, the device is asked, unless it is busy
// for long.
Expected<std::string> WorkerBench::page(const std::string& name) {
  if (name == "task") return describe_task(task_, settings_.workloads, target());
  if (name == "variant_format") return read_file(settings_.variant_format);
  if (!known_facts()) {
    Watch watch;
    watch.deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    ask_device(watch);
  }
  if (const auto info = device()) return describe_device(info->description, info->facts);
  if (const auto known = known_facts()) return describe_device(device_words(), *known);
  const KnownDevice* const card = target() == TargetKind::cuda ? known_device("h100") : nullptr;
  if (card == nullptr) return failure("device", "The device does not answer: `cultivar doctor` says why");
  return describe_device("There is no GPU here: kernels are compiled for an H100, whose numbers these are.",
                         card->facts);
}

tl::expected<Compiled, Evaluation> WorkerBench::compile(const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        const Watch& watch) {
  // Code runs on the very kind of card that it was compiled for; where there is none, Hopper's is made.
  if (target() == TargetKind::cuda && !known_facts()) ask_device(watch);
  const std::string architecture = this->architecture();
  std::unique_ptr<CompileService> compiler;
  {
    std::unique_lock lock(compilers_mutex_);
    const auto free = [&] { return compiling_ < std::max(1, settings_.compilers); };
    const auto until = std::min(watch.deadline, std::chrono::steady_clock::now() + std::chrono::hours(24));
    if (!compiler_free_.wait_until(lock, watch.stop, until, free))
      return tl::make_unexpected(rejection(Stage::compile, "interrupted", ""));
    ++compiling_;
    if (architecture != compiled_for_) idle_.clear();
    compiled_for_ = architecture;
    if (!idle_.empty()) {
      compiler = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  const auto give_back = [&](bool well) {
    {
      const std::lock_guard lock(compilers_mutex_);
      --compiling_;
      if (well && architecture == compiled_for_) idle_.push_back(std::move(compiler));
    }
    compiler_free_.notify_one();
  };
  try {
    if (!compiler) {
      ServiceOptions options = settings_.services;
      options.architecture = architecture;
      compiler = std::make_unique<CompileService>(options);
    }
    auto compiled = [&] {
      const Interruption when_over(watch, [&] { compiler->interrupt(); });
      return compiler->compile(variant, workloads);
    }();
    give_back(!watch.over());
    return compiled;
  } catch (...) {
    give_back(false);
    throw;
  }
}

Expected<Evaluation> WorkerBench::evaluate(const EvaluateRequest& request, const Watch& watch) {
  return on_device<Expected<Evaluation>>(
      watch, [&](DeviceService& service) { return service.evaluate(request, watch.progress); });
}

Expected<ProfilePartial> WorkerBench::profile(const ProfileRequest& request, const Watch& watch) {
  return on_device<Expected<ProfilePartial>>(
      watch, [&](DeviceService& service) { return service.profile(request, watch.progress); });
}

}  // namespace cultivar
