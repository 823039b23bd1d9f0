// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search_bench.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "engine/store/record_kernels.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/timing/roofline.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/reply.hpp"

namespace cultivar {

namespace {

// Opened again for each call, because the search writes to the record.
Record recorded(const std::filesystem::path& folder) {
  auto record = Record::open(folder);
  if (!record) throw std::runtime_error(record.error().message);
  return std::move(*record);
}

JobPtr probe(Job::Work work) {
  auto job = std::make_shared<Job>(std::move(work), 0);
  job->probe = true;
  return job;
}

}  // namespace

SearchBench::SearchBench(Where where, Pipeline& pipeline) : where_(std::move(where)), pipeline_(pipeline) {
  where_.sampling = benchmark_sampling(where_.sampling);
}

std::string SearchBench::unit() const {
  return unit_of(where_.task, where_.target);
}

std::string SearchBench::architecture() const {
  return architecture_of(where_.target, where_.facts);
}

std::string SearchBench::situation() const {
  return situation_of(recorded(where_.run_folder));
}

Expected<std::vector<KernelRow>> SearchBench::kernels(const KernelQuery& query) const {
  return kernels_in(recorded(where_.run_folder), query);
}

Expected<Kernel> SearchBench::kernel(const std::string& id) const {
  return kernel_in(recorded(where_.run_folder), id == "parent" ? std::to_string(where_.parent) : id);
}

std::vector<KernelRow> SearchBench::drafts() const {
  return drafts_in(recorded(where_.run_folder), fmt::format("q{}", where_.question));
}

Expected<Outlook> SearchBench::outlook(const std::string& id) const {
  return outlook_in(recorded(where_.run_folder), id, true);
}

std::filesystem::path SearchBench::notes_file() const {
  return RunFolder(where_.run_folder).notes();
}

std::vector<Page> SearchBench::pages() const {
  return {{"task", "what must be computed, how outputs are checked, which workloads are timed"},
          {"variant_format", "the format of a kernel and its manifest"},
          {"device", "the facts of the device, as available to expressions in a manifest"}};
}

Expected<std::string> SearchBench::page(const std::string& name) {
  if (name == "task") return describe_task(where_.task, where_.workloads, where_.target);
  if (name == "variant_format") return where_.kit.format_of(usual_language(where_.target));
  return describe_device(where_.device, where_.facts, where_.ceilings);
}

tl::expected<Compiled, Evaluation> SearchBench::compile(const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        const Watch& watch) {
  const JobPtr job = probe(Evaluate{{.build = {{std::make_shared<const Variant>(variant)}, workloads}}});
  if (!pipeline_.compile_probe(job, watch)) {
    const std::lock_guard lock(mutex_);
    interrupted_ = interrupted_ || !watch.over();
    return tl::make_unexpected(rejection(Stage::compile, "interrupted", ""));
  }
  if (job->trouble) throw std::runtime_error(job->trouble->message);
  return std::move(build_of(*job)->compiled.front());
}

Expected<void> SearchBench::measured(const JobPtr& job, const Watch& watch) {
  const bool served = pipeline_.measure_probe(job, watch);
  const std::lock_guard lock(mutex_);
  if (!served) {
    interrupted_ = interrupted_ || !watch.over();
    return failure(ErrorKind::interrupted, "", "it was not started");
  }
  device_s_ += job->seconds;
  if (!job->trouble) return {};
  interrupted_ = interrupted_ || job->trouble->kind == ErrorKind::interrupted;
  return tl::make_unexpected(*job->trouble);
}

Expected<Evaluation> SearchBench::evaluate(const EvaluateRequest& request, const Watch& watch) {
  const JobPtr job = probe(Evaluate{{.request = request}});
  if (const auto done = measured(job, watch); !done) return tl::make_unexpected(done.error());
  return std::move(*std::get<Evaluate>(job->work).result);
}

Expected<ProfilePartial> SearchBench::profile(const ProfileRequest& request, const Watch& watch) {
  const JobPtr job = probe(TakeProfile{{.request = request}});
  if (const auto done = measured(job, watch); !done) return tl::make_unexpected(done.error());
  return std::move(*std::get<TakeProfile>(job->work).result);
}

std::optional<double> SearchBench::device_seconds() const {
  const std::lock_guard lock(mutex_);
  return device_s_;
}

Expected<std::string> SearchBench::submit(const Variant& variant, const std::string& note,
                                          const std::string& from) {
  if (std::string why = too_many(variant.manifest); !why.empty()) return failure("submit", why);
  const Record record = recorded(where_.run_folder);
  if (const auto known = record.find(variant.id))
    return failure("submit",
                   fmt::format("It is identical to {} of the lineage, in its source and its tunables. "
                               "Make a change first.",
                               *known));
  const std::lock_guard lock(mutex_);
  handed_over_ = SubmittedKernel{variant.source, variant.configuration, note, record.find(from).value_or(0)};
  return "Submitted: the search now evaluates it like any other kernel.";
}

std::optional<SubmittedKernel> SearchBench::take_handed_over() {
  const std::lock_guard lock(mutex_);
  return std::exchange(handed_over_, std::nullopt);
}

bool SearchBench::interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_;
}

namespace {

// Calls may wait long because the search's jobs share the queues. Results are short because each one becomes
// part of all later requests.
constexpr ToolLimits kLimits{
    .call_seconds = 1800.0, .device_seconds = 0.0, .result_bytes = 24 * 1024, .drafts = 256};

ToolLimits limits_of(const ToolBudget& budget) {
  ToolLimits limits = kLimits;
  limits.device_seconds = budget.device_seconds;
  return limits;
}

}  // namespace

AgentToolCalls::AgentToolCalls(SearchBench::Where where, Pipeline& pipeline, const ToolBudget& budget)
    : bench_(std::move(where), pipeline), toolbox_(bench_, limits_of(budget)) {}

std::optional<ToolOutcome> AgentToolCalls::run(const ToolDue& due, const std::stop_token& stop) {
  ToolOutcome outcome;
  outcome.index = due.index;
  outcome.tool = one_line_of(due.call.name, 60);
  const auto arguments = due.call.parsed();
  if (!arguments) {
    outcome.failed = true;
    outcome.text =
        "The arguments of this call are not a JSON object. Send an object that follows the tool's schema.";
    return outcome;
  }
  const std::vector<MadeDraft> before = toolbox_.drafts();
  const double used_before = toolbox_.device_seconds_used();
  ToolResult result = toolbox_.call(due.call.name, *arguments, stop);
  if (stop.stop_requested() || bench_.interrupted()) return std::nullopt;
  outcome.text = std::move(result.text);
  outcome.failed = result.failed;
  outcome.device_s = std::round(1e3 * (toolbox_.device_seconds_used() - used_before)) / 1e3;
  for (MadeDraft& draft : toolbox_.drafts())
    if (std::ranges::find(before, draft.id, &MadeDraft::id) == before.end())
      outcome.drafts.push_back(std::move(draft));
  outcome.handed_over = bench_.take_handed_over();
  return outcome;
}

void AgentToolCalls::remember(const ToolOutcome& outcome) {
  toolbox_.restore(outcome.drafts, outcome.device_s);
}

}  // namespace cultivar
