// SPDX-License-Identifier: Apache-2.0
#include "engine/benches/run_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/config.hpp"
#include "engine/search/trust.hpp"
#include "engine/store/record.hpp"
#include "engine/store/record_kernels.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/similar_idea.hpp"
#include "engine/store/submissions.hpp"
#include "engine/store/tool_results.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

Record open_record(const fs::path& folder) {
  auto record = Record::open(folder);
  if (!record) throw std::runtime_error(record.error().message);
  return std::move(*record);
}

}  // namespace

RunBench::Opened RunBench::open(const Where& where) {
  const Record record = open_record(where.run_folder);
  Opened opened;
  opened.facts = record.facts();
  opened.config =
      recorded_config(opened.facts.config_yaml, RunFolder(where.run_folder), {}, where.runtime.installation);
  Config of_workers = opened.config;  // a bench asks no models and times no contenders
  of_workers.models.clear();
  of_workers.libraries.clear();
  require_trust(of_workers, RunFolder(where.run_folder), where.runtime);
  return opened;
}

BenchSettings RunBench::settings_of(const Where& where, const Opened& opened) {
  const EvaluationConfig& e = opened.config.evaluation;
  BenchSettings settings;
  ServiceOptions& s = settings.services;
  s.target = opened.config.target;
  s.programs = where.runtime.programs;
  s.launcher = e.launcher;
  s.compile_launcher = e.compile_launcher;
  s.cache = where.runtime.cache;
  s.task_folder = opened.facts.task_folder;
  s.device = where.device.value_or(e.devices.front());
  s.cores = e.cores;
  s.compile_deadline_s = e.compile_deadline_s;
  s.run_deadline_s = e.run_deadline_s;
  s.recycle_after = e.recycle_after;
  settings.compilers = e.compile_workers > 0
                           ? e.compile_workers
                           : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  settings.sampling = sampling_of(e);
  settings.workloads = opened.config.task->workloads(opened.config.workloads)->workloads;
  settings.knowledge = where.knowledge;
  return settings;
}

RunBench::RunBench(Where where) : RunBench(where, open(where)) {}

RunBench::RunBench(Where where, const Opened& opened)
    : WorkerBench(settings_of(where, opened)),
      where_(std::move(where)),
      run_(opened.facts),
      devices_of_search_(opened.config.evaluation.devices),
      own_(RunFolder(where_.run_folder)) {
  const nlohmann::json& devices = run_.environment.at("devices");
  if (devices.empty()) return;
  facts_ = facts_in(run_.environment);
  ceilings_ = ceilings_in(devices.front());
  device_words_ =
      devices.front().at("description").get<std::string>() + " (the device of the recorded search)";
}

std::string RunBench::situation() const {
  return situation_of(open_record(where_.run_folder));
}

std::string RunBench::caveat() const {
  const auto info = device();
  if (info && facts_ && info->facts != *facts_)
    return fmt::format(
        "Note: the search's kernels were measured on another device ({}). Compare only times that "
        "were measured here.",
        info->description);
  const bool shared = target()->on_host || !where_.device ||
                      std::ranges::find(devices_of_search_, *where_.device) != devices_of_search_.end();
  if (!shared || !RunLock::holder(RunFolder(where_.run_folder))) return "";
  if (!target()->on_host) return "Note: the search also uses this device. Both share it, so both are slower.";
  return "Note: the search is measuring on this device at the same time: times are noisy, and timing here "
         "disturbs the search's measurements. Prefer compile, check and submit; then the search measures the "
         "kernel.";
}

Expected<std::vector<KernelRow>> RunBench::kernels(const KernelQuery& query) const {
  return kernels_in(open_record(where_.run_folder), query);
}

Expected<Kernel> RunBench::kernel(const std::string& name) const {
  return kernel_in(open_record(where_.run_folder), name);
}

std::vector<KernelRow> RunBench::drafts() const {
  const std::lock_guard lock(mutex_);
  return drafts_in(open_record(where_.run_folder), own_.name());
}

Expected<void> RunBench::share(const ToolOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  return own_.add(to_body(outcome));
}

std::string RunBench::similar(const Variant& variant, const std::string& from) const {
  const Record record = open_record(where_.run_folder);
  return similar_earlier(record, variant.source,
                         from.empty() ? 0 : find_individual(record, from, kToolOfNames));
}

Expected<Outlook> RunBench::outlook(const std::string& id) const {
  const bool running = RunLock::holder(RunFolder(where_.run_folder)).has_value();
  return outlook_in(open_record(where_.run_folder), id, running);
}

std::filesystem::path RunBench::notes_file() const {
  return RunFolder(where_.run_folder).notes();
}

Expected<std::string> RunBench::submit(const Variant& variant, const std::string& note,
                                       const std::string& from) {
  std::vector<IndividualId> parents;
  if (!from.empty()) parents = {find_individual(open_record(where_.run_folder), from, kToolOfNames)};
  const auto waiting =
      submit_variant(where_.run_folder, variant.source, variant.configuration, note, parents);
  if (!waiting) return tl::make_unexpected(waiting.error());
  if (RunLock::holder(RunFolder(where_.run_folder)))
    return "Submitted: the running search picks it up within seconds. `wait` for the verdict, or "
           "list_lineage with order=newest.";
  return fmt::format(
      "Submitted and waiting: the search is not running; it picks up the kernel when somebody "
      "resumes it ({}).",
      where_.resume_command);
}

}  // namespace cultivar
