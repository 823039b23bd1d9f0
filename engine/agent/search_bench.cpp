#include "engine/agent/search_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/agent/record_kernels.hpp"
#include "engine/agent/worker_bench.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"
#include "operators/dialogue.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {

namespace {

// Anew for each call: the search writes meanwhile.
Record open_record(const std::filesystem::path& folder) {
  auto record = Record::open(folder);
  if (!record) throw std::runtime_error(record.error().message);
  return std::move(*record);
}

JobPtr probe() {
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::probe;
  return job;
}

}  // namespace

SearchBench::SearchBench(Where where, Pipeline& pipeline) : where_(std::move(where)), pipeline_(pipeline) {
  where_.sampling.max_samples = std::min(where_.sampling.max_samples, kBenchmarkSamples);
  where_.sampling.max_seconds = std::min(where_.sampling.max_seconds, kBenchmarkSeconds);
}

std::string SearchBench::unit() const {
  if (where_.task.cost.by_bytes) return "GB/s";
  return where_.target == TargetKind::cpu ? "GFLOPS" : "TFLOPS";
}

std::string SearchBench::architecture() const {
  const auto capability = where_.facts.find("compute_capability");
  return capability == where_.facts.end() ? "" : architecture_of(static_cast<int>(capability->second));
}

std::string SearchBench::situation() const {
  return situation_of(open_record(where_.run_folder));
}

Expected<std::vector<KernelRow>> SearchBench::kernels(const KernelQuery& query) const {
  return kernels_in(open_record(where_.run_folder), query);
}

Expected<Kernel> SearchBench::kernel(const std::string& id) const {
  return kernel_in(open_record(where_.run_folder), id == "parent" ? std::to_string(where_.parent) : id);
}

std::vector<Page> SearchBench::pages() const {
  return {{"task", "what must be computed, how outputs are judged, the workloads that are timed"},
          {"variant_format", "how a kernel and its manifest are written"},
          {"device", "the numbers of the device, as expressions of a manifest see them"}};
}

Expected<std::string> SearchBench::page(const std::string& name) {
  if (name == "task") return describe_task(where_.task, where_.workloads, where_.target);
  if (name == "variant_format") return where_.kit.piece("format_" + std::string(name_of(where_.target)));
  return describe_device(where_.device, where_.facts);
}

tl::expected<Compiled, Evaluation> SearchBench::compile(const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        const Watch& watch) {
  const JobPtr job = probe();
  job->variants = {variant};
  job->workloads = workloads;
  if (!pipeline_.compile_probe(job, watch)) {
    const std::lock_guard lock(mutex_);
    interrupted_ = interrupted_ || !watch.over();
    return tl::make_unexpected(rejection(Stage::compile, "interrupted", ""));
  }
  if (job->trouble) throw std::runtime_error(job->trouble->message);
  return std::move(job->compiled.front());
}

Expected<JobPtr> SearchBench::measured(const JobPtr& job, const Watch& watch) {
  const bool served = pipeline_.measure_probe(job, watch);
  const std::lock_guard lock(mutex_);
  if (!served) {
    interrupted_ = interrupted_ || !watch.over();
    return failure("interrupted", "it was not begun");
  }
  device_s_ += job->seconds;
  if (!job->trouble) return job;
  interrupted_ = interrupted_ || job->trouble->stage == "interrupted";
  return tl::make_unexpected(*job->trouble);
}

Expected<Evaluation> SearchBench::evaluate(const EvaluateRequest& request, const Watch& watch) {
  const JobPtr job = probe();
  job->evaluate = request;
  auto done = measured(job, watch);
  if (!done) return tl::make_unexpected(done.error());
  return std::move(*job->evaluation);
}

Expected<ProfilePartial> SearchBench::profile(const ProfileRequest& request, const Watch& watch) {
  const JobPtr job = probe();
  job->profiling = request;
  auto done = measured(job, watch);
  if (!done) return tl::make_unexpected(done.error());
  return std::move(*job->profile);
}

std::optional<double> SearchBench::device_seconds() const {
  const std::lock_guard lock(mutex_);
  return device_s_;
}

Expected<std::string> SearchBench::submit(const Variant& variant, const std::string& note,
                                          const std::string&) {
  if (std::string why = too_many(variant.manifest); !why.empty()) return failure("submit", why);
  if (const auto known = open_record(where_.run_folder).find(variant.id))
    return failure("submit", fmt::format("It is {} of the lineage, letter for letter and value for value. "
                                         "Change something that matters first.",
                                         *known));
  const std::lock_guard lock(mutex_);
  handed_over_ = HandedOver{variant.source, variant.configuration, note};
  return "Handed over: the search judges it now, like any other kernel.";
}

std::optional<HandedOver> SearchBench::take_handed_over() {
  const std::lock_guard lock(mutex_);
  return std::exchange(handed_over_, std::nullopt);
}

bool SearchBench::interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_;
}

}  // namespace cultivar
