// SPDX-License-Identifier: Apache-2.0
// An agent's bench on real workers; the base of the benches for a run and for a task.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>

#include "evaluators/worker/services.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

struct BenchSettings {
  ServiceOptions services;  // with the task's task_folder; concurrent calls each get their own compiler
  int compilers = 1;        // limit on the number of compilers
  std::vector<Workload> workloads;
  Sampling sampling;
  std::vector<std::filesystem::path> knowledge;  // folders of notes, in addition to the built-in ones
};

// Starts no worker before the first call that needs it. A call that is canceled or times out kills only the
// workers that serve it; the next call starts new ones.
class WorkerBench : public Bench {
 public:
  explicit WorkerBench(BenchSettings);
  ~WorkerBench() override;

  const Task& task() const override { return task_; }
  const std::vector<Workload>& workloads() const override { return settings_.workloads; }
  Target target() const override { return settings_.services.target; }
  std::string unit() const override;
  std::string architecture() const override;
  std::optional<Facts> facts() const override;
  Sampling sampling() const override { return settings_.sampling; }
  bool timing_needs_quiet() const override { return target()->on_host; }
  const std::vector<Note>& notes() const override { return notes_; }
  std::vector<Page> pages() const override;
  Expected<std::string> page(const std::string& name) override;

  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             const Watch&) override;
  Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) override;
  Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) override;

 protected:
  virtual std::optional<Facts> known_facts() const = 0;   // known without the device; nullopt if unknown
  virtual std::string device_words() const = 0;           // describes the device of known_facts()
  virtual Ceilings known_ceilings() const { return {}; }  // of that device; 0: unknown
  // This machine's device, as queried; nullopt before the first query.
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
  std::string compiled_for_;  // the architecture of the compilers
  int compiling_ = 0;
};

}  // namespace cultivar
