// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/search/evaluator.hpp"
#include "engine/search/search.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

namespace {

class WorkerEvaluator : public Evaluator {
 public:
  WorkerEvaluator(const ServiceOptions& options, const std::vector<int>& devices, int workers_per_device)
      : options_(options),
        programs_(options.programs.empty() ? program_folder() : options.programs),
        numbers_(devices),
        workers_per_device_(workers_per_device) {
    for (const int device : devices) workers_.push_back(worker_of(device));
  }

  void while_starting(WhileStarting told) override { while_starting_ = std::move(told); }

  void prefer(Facts facts) override { preferred_ = std::move(facts); }

  Expected<std::vector<DeviceInfo>> devices() override {
    const bool launched = !options_.launcher.empty();
    auto asked = first_answers();
    // The search had workers before: what fails at once may be a host that is not up yet.
    const Clock::time_point start = Clock::now();
    for (double pause = 1.0; asked && launched && preferred_ && !asked->front(); pause *= 2.0) {
      pause = std::min(pause, kLongestPause);
      if (seconds_since(start) + pause > options_.queue_deadline_s) break;
      if (!rest(pause, asked->front().error())) return tl::make_unexpected(given_up());
      asked = first_answers();
    }
    if (!asked) return tl::make_unexpected(asked.error());
    const std::vector<Answer> answers = std::move(*asked);
    const DeviceInfo* kind = nullptr;
    for (const bool preferred : {true, false})
      for (const Answer& answer : answers)
        if (kind == nullptr && answer && (!preferred || is_preferred(*answer))) kind = &*answer;
    if (kind == nullptr) return tl::make_unexpected(answers.front().error());
    kind_ = *kind;

    std::vector<DeviceInfo> infos;
    std::vector<std::unique_ptr<DeviceService>> well;
    std::vector<int> numbers;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const bool answered = i < answers.size() && answers[i];
      const bool fits = answered && answers[i]->same_kind(kind_);
      if (i < answers.size() && !fits) {
        left_out_.push_back(!answered  ? fmt::format("device {} is left out of this search: {}", numbers_[i],
                                                     answers[i].error().message)
                            : launched ? fmt::format("a worker was started on '{}', which is not used: {}",
                                                     answers[i]->description, incomparable())
                                       : fmt::format("device {} is '{}' and is left out of this search: {}",
                                                     numbers_[i], answers[i]->description, incomparable()));
        if (!launched || !answered) continue;  // a launcher may start the next one elsewhere
      }
      if (fits) infos.push_back(*answers[i]);
      well.push_back(std::move(workers_[i]));
      numbers.push_back(numbers_[i]);
      runs_on_.push_back(answered ? answers[i]->description : "");
    }
    workers_ = std::move(well);
    for (int more = 1; more < workers_per_device_; ++more)
      for (const int device : numbers) workers_.push_back(worker_of(device));
    runs_on_.resize(workers_.size());
    options_.architecture = architecture_of(options_.target, kind_.facts);
    compiler_ = std::make_unique<CompileService>(options_);
    return infos;
  }
  std::vector<std::string> left_out() const override { return left_out_; }
  std::string compiler_identity() override { return compiler_->compiler_identity(); }
  std::string compiler_weakness() override { return compiler_->compiler_info().weakness; }
  // A launcher gives each worker cores of its own.
  bool timing_needs_quiet() const override { return options_.target->on_host && options_.launcher.empty(); }
  int compile_workers() const override { return options_.compile_workers; }
  int device_workers() const override { return static_cast<int>(workers_.size()); }

  tl::expected<Compiled, Evaluation> compile(const Variant& variant, const std::vector<Workload>& workloads,
                                             Breadth breadth) override {
    return compiler_->compile(variant, workloads, breadth);
  }
  Expected<void> prepare(int worker) override {
    const auto which = static_cast<std::size_t>(worker);
    auto opened = workers_.at(which)->open(kind_);
    const auto& unlike = workers_[which]->unlike();
    const std::lock_guard lock(mutex_);
    runs_on_[which] = opened ? kind_.description : unlike ? unlike->description : "";
    return opened;
  }
  std::vector<WorkersOf> pools() const override {
    std::vector<WorkersOf> all{{kind_.description, 0, true}};
    const std::lock_guard lock(mutex_);
    for (const std::string& device : runs_on_) {
      if (device.empty()) continue;
      auto pool = std::ranges::find(all, device, &WorkersOf::device);
      if (pool == all.end()) pool = all.insert(all.end(), {device, 0, false});
      ++pool->workers;
    }
    return all;
  }
  Compiled contender(const std::string& library) override {
    const bool path = names_a_library_file(library) || names_a_program(library);
    return library_contender(path ? name_of_library(library) : library,
                             find_contender_library(library, "/", programs_, {}), options_.target);
  }
  Expected<Evaluation> evaluate(int worker, const EvaluateRequest& request, const Note& note) override {
    return workers_.at(static_cast<std::size_t>(worker))->evaluate(request, note);
  }
  Expected<GateReport> gate(int worker, const GateRequest& request, const Note& note) override {
    return workers_.at(static_cast<std::size_t>(worker))->gate(request, note);
  }
  Expected<ProfilePartial> profile(int worker, const ProfileRequest& request, const Note& note) override {
    return workers_.at(static_cast<std::size_t>(worker))->profile(request, note);
  }
  void interrupt() override {
    if (compiler_) compiler_->interrupt();
    for (const auto& worker : workers_) worker->interrupt();
  }

 private:
  using Answer = Expected<DeviceInfo>;

  static constexpr double kLongestPause = 60.0;  // between two starts

  static Error given_up() {
    return {ErrorKind::interrupted, "devices", "interrupted while a worker was started"};
  }

  // All workers at the same time. With a launcher, one after the other until one is right: a scheduler may
  // start the others much later; they join then (see prepare).
  Expected<std::vector<Answer>> first_answers() {
    const bool launched = !options_.launcher.empty();
    std::vector<Answer> answers;
    for (std::size_t next = 0; next < workers_.size();) {
      const std::size_t end = launched ? next + 1 : workers_.size();
      auto some = ask(next, end);
      if (!some) return tl::make_unexpected(some.error());
      std::ranges::move(*some, std::back_inserter(answers));
      next = end;
      if (launched && (!answers.back() || is_preferred(*answers.back()))) break;
    }
    return answers;
  }

  // False: the caller gave up.
  bool rest(double seconds, const Error& why) const {
    const Clock::time_point end = deadline_in(seconds);
    for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(200)))
      if (while_starting_ &&
          !while_starting_(fmt::format("waiting {:.0f} s before the next start: {}",
                                       std::ceil(std::chrono::duration<double>(end - Clock::now()).count()),
                                       why.message)))
        return false;
    return true;
  }

  // Asks workers [begin, end) at the same time. An Error only if the caller gave up.
  Expected<std::vector<Answer>> ask(std::size_t begin, std::size_t end) {
    std::vector<std::future<Answer>> asked;
    for (std::size_t i = begin; i < end; ++i)
      asked.push_back(std::async(std::launch::async, [this, &worker = workers_[i]] {
        return worker->info([this](const std::string& step) {
          const std::lock_guard lock(mutex_);
          starting_ = step;
        });
      }));
    if (!await(asked)) {
      interrupt();
      return tl::make_unexpected(given_up());
    }
    std::vector<Answer> answers;
    for (auto& answer : asked) answers.push_back(answer.get());
    return answers;
  }
  bool is_preferred(const DeviceInfo& info) const { return !preferred_ || info.facts == *preferred_; }
  std::string incomparable() const {
    return fmt::format("this search measures on '{}', and times on different devices cannot be compared",
                       kind_.description);
  }

  // Waits until all have answered. False: the caller gave up.
  bool await(const std::vector<std::future<Expected<DeviceInfo>>>& asked) const {
    if (!while_starting_) return true;
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < asked.size(); ++i)
      while (asked[i].wait_for(std::chrono::milliseconds(500)) != std::future_status::ready) {
        const std::string by =
            options_.launcher.empty() ? "" : fmt::format(" by `{}`", shell_words(options_.launcher));
        const std::string doing = starting_step();
        if (!while_starting_(fmt::format("waiting for worker {} of {} to be started{}{} ({:.0f} s)", i + 1,
                                         workers_.size() * static_cast<std::size_t>(workers_per_device_), by,
                                         doing.empty() ? "" : ": " + doing, seconds_since(start))))
          return false;
      }
    return true;
  }

  std::string starting_step() const {
    const std::lock_guard lock(mutex_);
    return starting_;
  }

  std::unique_ptr<DeviceService> worker_of(int device) const {
    ServiceOptions own = options_;
    own.device = device;
    return std::make_unique<DeviceService>(own);
  }

  ServiceOptions options_;
  std::filesystem::path programs_;
  std::vector<int> numbers_;  // device numbers in the configuration
  int workers_per_device_;
  std::vector<std::string> left_out_;
  WhileStarting while_starting_;
  std::optional<Facts> preferred_;
  DeviceInfo kind_;                           // of the devices that this search measures on
  std::unique_ptr<CompileService> compiler_;  // made when the devices' architecture is known
  // The first worker of each device, then the second worker of each, and so on.
  std::vector<std::unique_ptr<DeviceService>> workers_;
  mutable std::mutex mutex_;
  std::vector<std::string> runs_on_;  // guarded: the device of each worker; empty: not known now
  std::string starting_;              // guarded: what a worker said last before it was ready
};

}  // namespace

std::unique_ptr<Evaluator> make_worker_evaluator(const Config& config,
                                                 const std::filesystem::path& task_folder,
                                                 const Runtime& runtime) {
  const EvaluationConfig& e = config.evaluation;
  ServiceOptions options;
  options.target = config.target;
  options.programs = runtime.programs;
  options.launcher = e.launcher;
  options.compile_launcher = e.compile_launcher;
  options.queue_deadline_s = e.patience_s;
  options.cores = e.cores;
  options.cache = runtime.cache;
  options.task_folder = task_folder;
  options.compile_workers = e.compile_workers > 0
                                ? e.compile_workers
                                : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.compile_deadline_s = e.compile_deadline_s;
  options.run_deadline_s = e.run_deadline_s;
  options.recycle_after = e.recycle_after;
  options.python = e.python;
  options.prepare_deadline_s = e.prepare_deadline_s;
  return std::make_unique<WorkerEvaluator>(options, e.devices, e.workers_per_device);
}

}  // namespace cultivar
