// The bench of an agent over the real workers: what a run's and a task's bench have in common.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>

#include "evaluators/worker/services.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

// For one workload beside another kernel, at most: an agent waits for it, and the gate decides anyway.
inline constexpr double kBenchmarkSeconds = 5.0;  // of timed work
inline constexpr int kBenchmarkSamples = 30;

struct BenchSettings {
  ServiceOptions
      services;       // its task_folder is the task's; one compiler each is started for calls side by side
  int compilers = 1;  // of these, at most
  std::vector<Workload> workloads;
  Sampling sampling;
  std::vector<std::filesystem::path> knowledge;  // folders of notes
  std::filesystem::path variant_format;          // a page of text
};

// Starts nothing before the first call that needs it. A call that is over kills the workers that serve it,
// and those alone; the next call gets fresh ones.
class WorkerBench : public Bench {
 public:
  explicit WorkerBench(BenchSettings);
  ~WorkerBench() override;

  const Task& task() const override { return task_; }
  const std::vector<Workload>& workloads() const override { return settings_.workloads; }
  TargetKind target() const override { return settings_.services.target; }
  std::string unit() const override;
  std::string architecture() const override;
  std::optional<Facts> facts() const override;
  Sampling sampling() const override { return settings_.sampling; }
  bool timing_needs_quiet() const override { return target() == TargetKind::cpu; }
  const std::vector<Note>& notes() const override { return notes_; }
  std::vector<Page> pages() const override;
  Expected<std::string> page(const std::string& name) override;

  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             const Watch&) override;
  Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) override;
  Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) override;

 protected:
  virtual std::optional<Facts> known_facts() const = 0;  // without the device; nullopt: nothing certain
  virtual std::string device_words() const = 0;          // of those facts
  // What this machine's device says of itself; nullopt: it has not been asked yet.
  std::optional<DeviceInfo> device() const;

 private:
  void learn(DeviceService&);
  void ask_device(const Watch&);
  template <class Result, class Ask>
  Result on_device(const Watch&, const Ask&);

  BenchSettings settings_;
  Task task_;
  std::vector<Note> notes_;

  std::mutex device_mutex_;
  std::unique_ptr<DeviceService> device_;
  mutable std::mutex info_mutex_;
  std::optional<DeviceInfo> info_;
  bool asked_ = false;

  std::mutex compilers_mutex_;
  std::condition_variable_any compiler_free_;
  std::vector<std::unique_ptr<CompileService>> idle_;
  std::string compiled_for_;  // the architecture of those
  int compiling_ = 0;
};

}  // namespace cultivar
