// SPDX-License-Identifier: Apache-2.0
#include "engine/benches/worker_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "evaluators/timing/roofline.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/prompts/prompt.hpp"

namespace cultivar {

namespace {

// Ends work that blocks elsewhere when a call is canceled or times out. Calls `act` at most once, from its
// own thread, when the watch is over; never after the destructor returned. The watch must outlive this
// object.
class Interruption {
 public:
  Interruption(const Watch& watch, std::function<void()> act);

 private:
  std::jthread waiter_;
};

void wait_for_the_end(const std::stop_token& not_needed, const Watch& watch,
                      const std::function<void()>& act) {
  std::mutex mutex;
  std::condition_variable_any changed;
  const std::stop_callback wake(watch.stop, [&] {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  // A deadline of "never" exceeds the longest time that a clock can wait for.
  const auto until = std::min(watch.deadline, Clock::now() + std::chrono::hours(24 * 365));
  changed.wait_until(lock, not_needed, until, [&] { return watch.stop.stop_requested(); });
  lock.unlock();
  if (!not_needed.stop_requested() && watch.over()) act();
}

Interruption::Interruption(const Watch& watch, std::function<void()> act)
    : waiter_([&watch, act = std::move(act)](const std::stop_token& not_needed) {
        wait_for_the_end(not_needed, watch, act);
      }) {}

}  // namespace

WorkerBench::WorkerBench(BenchSettings settings)
    : settings_(std::move(settings)),
      task_(load_task(settings_.services.task_folder)),
      notes_(known_notes(settings_.knowledge)) {
  // One variant has up to dozens of specialisations.
  settings_.services.compile_workers =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
  settings_.sampling = benchmark_sampling(settings_.sampling);
}
WorkerBench::~WorkerBench() = default;

std::string WorkerBench::unit() const {
  return unit_of(task_, target());
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
  const auto numbers = facts();
  const std::string known = numbers ? architecture_of(target(), *numbers) : std::string();
  return known.empty() ? settings_.services.architecture : known;
}

std::vector<Page> WorkerBench::pages() const {
  return {{"task", "what must be computed, how outputs are checked, which workloads are timed"},
          {"variant_format", "the format of a kernel and its manifest"},
          {"device", "the facts of the device, as available to expressions in a manifest"}};
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
  if (watch.over()) device_.reset();  // its worker was killed, or is about to be
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

// Known facts are used without the device; if there are none, the device is queried, unless it stays busy
// too long.
Expected<std::string> WorkerBench::page(const std::string& name) {
  if (name == "task") return describe_task(task_, settings_.workloads, target());
  if (name == "variant_format") return PromptKit().format_of(usual_language(target()));
  if (!known_facts()) {
    Watch watch;
    watch.deadline = Clock::now() + std::chrono::minutes(2);
    ask_device(watch);
  }
  if (const auto info = device()) return describe_device(info->description, info->facts, info->ceilings);
  if (const auto known = known_facts()) return describe_device(device_words(), *known, known_ceilings());
  if (target()->stand_in_words.empty())
    return failure("device", "The device does not answer; run `cultivar doctor` to see why");
  return describe_device(target()->stand_in_words, target()->stand_in_facts(0));
}

tl::expected<Compiled, Evaluation> WorkerBench::compile(const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        const Watch& watch) {
  // Code is compiled for the architecture of the device that runs it; without a device, for the usual one.
  if (target()->architectures != nullptr && !known_facts()) ask_device(watch);
  const std::string architecture = this->architecture();
  std::unique_ptr<CompileService> compiler;
  {
    std::unique_lock lock(compilers_mutex_);
    const auto free = [&] { return compiling_ < std::max(1, settings_.compilers); };
    const auto until = std::min(watch.deadline, Clock::now() + std::chrono::hours(24));
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
