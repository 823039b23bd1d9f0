// SPDX-License-Identifier: Apache-2.0
// The bench of an agent that works on a task without a search: its kernels are the task's seeds.
#pragma once

#include <map>

#include "engine/benches/worker_bench.hpp"

namespace cultivar {

class TaskBench : public WorkerBench {
 public:
  // Throws InputError when the task has no readable seed for the target.
  explicit TaskBench(BenchSettings);

  std::string situation() const override;
  std::string caveat() const override { return ""; }
  Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const override;
  // `best` is the fastest seed measured in this session; before any measurement, the first seed.
  Expected<Kernel> kernel(const std::string& id) const override;
  bool takes_submissions() const override { return false; }
  Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) override;

  Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) override;

 protected:
  std::optional<Facts> known_facts() const override { return std::nullopt; }
  std::string device_words() const override { return ""; }

 private:
  struct Seed {
    std::string name;
    Variant variant;
    std::optional<Evaluation> evaluation;  // of this session, on all workloads that it claims
  };
  const Seed& best() const;  // call with the mutex locked
  KernelRow row_of(const Seed&) const;

  mutable std::mutex mutex_;
  std::vector<Seed> seeds_;  // by name
};

}  // namespace cultivar
