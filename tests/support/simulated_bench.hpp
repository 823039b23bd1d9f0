// SPDX-License-Identifier: Apache-2.0
// A bench that measures nothing: kernels of the softmax task whose source text determines their behavior.
//   "does not compile"   the compiler rejects it with a message
//   "is wrong"           rejected at the stage `sweep`
//   "sleeps"             runs until stopped, or for sleep_s
//   "SPEED 12.5"         its fitness (default 10)
//   "TILED"              its fitness is multiplied by TILE
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "operators/agent/bench.hpp"

namespace cultivar::testing {

// A whole source for that task; `words` go into one of its comments.
std::string softmax_kernel(const std::string& words);

class SimulatedBench : public Bench {
 public:
  SimulatedBench();

  const Task& task() const override { return task_; }
  const std::vector<Workload>& workloads() const override { return workloads_; }
  Target target() const override { return usual_target(); }
  std::string unit() const override { return "GB/s"; }
  std::string architecture() const override { return ""; }
  std::optional<Facts> facts() const override { return std::nullopt; }
  Sampling sampling() const override { return {}; }
  bool timing_needs_quiet() const override { return quiet; }
  std::string situation() const override { return "A simulated run.\n"; }
  std::string caveat() const override { return ""; }
  Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const override;
  Expected<Kernel> kernel(const std::string& id) const override;
  const std::vector<Note>& notes() const override { return notes_; }
  std::vector<Page> pages() const override { return {{"task", "what must be computed"}}; }
  Expected<std::string> page(const std::string& name) override { return "The page " + name; }
  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             const Watch&) override;
  Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) override;
  Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) override;
  bool takes_submissions() const override { return submissions; }
  Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) override;
  Expected<void> share(const ToolOutcome& outcome) override {
    shared.push_back(outcome);
    if (!shares) return failure("share drafts", "the folder is full");
    return {};
  }
  std::string similar(const Variant&, const std::string& from) const override {
    return alike.empty() ? "" : alike + " of " + (from.empty() ? "an unknown base" : from) + "\n";
  }

  bool quiet = false, submissions = true;
  double sleep_s = 20.0;
  std::vector<Kernel> known;  // "1": a seed of SPEED 10; "2": the best, of SPEED 20
  struct Submitted {
    std::string source, note, from;
  };
  std::vector<Submitted> submitted;
  std::vector<ToolOutcome> shared;
  bool shares = true;
  std::string alike;  // what similar() says
  std::atomic<int> evaluations{0}, measuring{0}, most_measuring{0};
  std::filesystem::path notes_path;
  std::filesystem::path notes_file() const override { return notes_path; }
  std::atomic<bool> until_clear{false};    // of the last evaluation
  std::atomic<int> most_samples{0};        // maximum of the last evaluation
  std::atomic<double> most_seconds = 0.0;  // limit of timing in the last request

 private:
  void work(const std::string& source, const Watch&);

  Task task_;
  std::vector<Workload> workloads_;
  std::vector<Note> notes_;
};

}  // namespace cultivar::testing
