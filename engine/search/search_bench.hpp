// SPDX-License-Identifier: Apache-2.0
// The bench of an agent inside a search. It compiles and measures through the search's pipeline, shared with
// all other jobs, and reads the run's record. The search takes the kernel that the agent submits.
#pragma once

#include <filesystem>
#include <mutex>

#include "engine/search/pipeline.hpp"
#include "operators/agent/bench.hpp"
#include "operators/agent/toolbox.hpp"
#include "operators/asking_operator.hpp"
#include "operators/prompts/prompt.hpp"

namespace cultivar {

class Record;

class SearchBench : public Bench {
 public:
  struct Where {  // all references outlive the bench
    std::filesystem::path run_folder;
    const Task& task;
    const std::vector<Workload>& workloads;
    const Facts& facts;
    const PromptKit& kit;
    Target target = usual_target();
    std::string device;  // its description
    Sampling sampling;
    IndividualId parent = 0;  // tools accept the name `parent` for it
    Ceilings ceilings = {};
    std::int64_t question = 0;  // whose conversation it serves
  };
  SearchBench(Where, Pipeline&);

  const Task& task() const override { return where_.task; }
  const std::vector<Workload>& workloads() const override { return where_.workloads; }
  Target target() const override { return where_.target; }
  std::string unit() const override;
  std::string architecture() const override;
  std::optional<Facts> facts() const override { return where_.facts; }
  Sampling sampling() const override { return where_.sampling; }
  bool timing_needs_quiet() const override { return false; }  // the pipeline ensures it
  std::string situation() const override;
  std::string caveat() const override { return ""; }
  Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const override;
  Expected<Kernel> kernel(const std::string& id) const override;
  std::vector<KernelRow> drafts() const override;
  Expected<Outlook> outlook(const std::string& id) const override;
  std::filesystem::path notes_file() const override;
  const std::vector<Note>& notes() const override { return where_.kit.notes(); }
  std::vector<Page> pages() const override;
  Expected<std::string> page(const std::string& name) override;

  tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                             const Watch&) override;
  Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) override;
  Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) override;
  std::optional<double> device_seconds() const override;

  bool takes_submissions() const override { return true; }
  Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) override;

  std::optional<SubmittedKernel> take_handed_over();  // the last submitted kernel, at most once
  bool interrupted() const;                           // work was not started because the search is stopping

 private:
  Expected<void> measured(const JobPtr&, const Watch&);

  Where where_;
  Pipeline& pipeline_;
  mutable std::mutex mutex_;
  double device_s_ = 0.0;  // guarded by mutex_, like all members below
  bool interrupted_ = false;
  std::optional<SubmittedKernel> handed_over_;
};

// Runs the tool calls of one dialogue of the operator `agent` and returns each result in its recorded form.
// Not thread-safe: one call at a time.
class AgentToolCalls {
 public:
  AgentToolCalls(SearchBench::Where, Pipeline&, const ToolBudget&);
  // nullopt: interrupted because the search is stopping; the call has no result and must be run again.
  std::optional<ToolOutcome> run(const ToolDue&, const std::stop_token&);
  // For a resumed dialogue: restores the result of a call of an earlier session. Call before the first run().
  void remember(const ToolOutcome&);

 private:
  SearchBench bench_;
  Toolbox toolbox_;
};

}  // namespace cultivar
