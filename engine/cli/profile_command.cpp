// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/workbench.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The variant to profile, its origin and its task.
struct Subject {
  NamedSource source;
  fs::path task_folder;
  fs::path run;  // empty for a file or a seed
  IndividualId id = 0;
  std::vector<std::string> workloads;  // of the run, if any
};

Subject subject_of(const InstallationPaths& installation, const std::string& argument,
                   const std::string& task_name) {
  Subject subject;
  const std::string name = split_variant_argument(argument).name;
  std::error_code ignored;
  const auto of_run = split_run_and_id(name);
  if (!fs::is_regular_file(name, ignored) && !fs::is_regular_file(installation.root / name, ignored) &&
      of_run) {
    const Record record = open_run(installation, of_run->first);
    const RunFacts facts = record.facts();
    subject.run = record.folder();
    subject.id = find_individual(record, of_run->second);
    subject.task_folder = fs::exists(facts.task_folder, ignored) ? fs::path(facts.task_folder)
                                                                 : find_task(installation, facts.task_name);
    subject.workloads = facts.workloads;
    subject.source = find_source(installation, load_task(subject.task_folder), argument, {});
    return subject;
  }
  if (!task_name.empty()) {
    subject.task_folder = find_task(installation, task_name);
    subject.source =
        find_source(installation, load_task(subject.task_folder), argument, {"seeds", "contenders"});
    return subject;
  }
  for (const fs::path& file : {fs::path(name), installation.root / name})
    if (fs::is_regular_file(file, ignored)) return subject_of(installation, argument, task_name_in(file));
  std::vector<std::string> having;  // a seed of that name
  for (const std::string& task : task_names(installation))
    for (const auto& entry : fs::directory_iterator(find_task(installation, task) / "seeds", ignored))
      if (entry.path().stem() == name) having.push_back(task);
  if (having.size() == 1) return subject_of(installation, argument, having.front());
  if (!having.empty())
    throw InputError(fmt::format("several tasks have a seed '{}': name one of them with --task ({})", name,
                                 fmt::join(having, ", ")));
  if (fs::is_directory(name, ignored))
    throw InputError(
        fmt::format("{} is a folder: name a file in it, or RUN:ID for an individual of a run", name));
  throw InputError(fmt::format(
      "there is no file, run or seed '{}'; to name an individual of a run, write RUN:ID", argument));
}

// By name, from any set of the task; if unnamed, the most expensive one of the run or of the default set.
Workload choose_workload(const Task& task, const Variant& variant, const std::string& name,
                         const std::vector<std::string>& of_run) {
  std::vector<Workload> fitting;
  std::vector<std::string> known;
  const auto wanted = [&](const Workload& w) {
    if (!name.empty()) return w.name == name;
    return std::find(of_run.begin(), of_run.end(), w.name) != of_run.end();
  };
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads) {
      if (!claims(variant, task, w)) continue;
      known.push_back(w.name);
      if (wanted(w)) fitting.push_back(w);
    }
  if (fitting.empty() && name.empty())
    fitting = claimed(variant, task, choose_workloads(task, "", variant.manifest.target).workloads);
  if (fitting.empty())
    throw InputError(name.empty()
                         ? fmt::format("{} claims no workload of the default set: name one with --workload",
                                       variant.manifest.name)
                         : fmt::format("task {} has no workload '{}' that {} claims{}", task.name, name,
                                       variant.manifest.name, did_you_mean(name, known)));
  return task.most_expensive(fitting);
}

// While a search is running, only that search writes to its record: then the profile is shown but not stored.
std::string keep(const Subject& subject, const Profile& profile) {
  auto writer = RecordWriter::open(RunFolder(subject.run));
  if (!writer) return fmt::format("Not stored in the record: {}", writer.error().message);
  const double elapsed = summary_of(writer->record()).elapsed_s;
  const auto kept = writer->step(elapsed, [&](Step& step) { step.profile(subject.id, profile); });
  if (!kept) return fmt::format("Not stored in the record: {}", kept.error().message);
  return fmt::format("Stored in the record; to show it again: {} show {} {}", called_as(),
                     shell_word(subject.run.string()), subject.id);
}

}  // namespace

int profile_command(const Arguments& arguments) {
  std::string variant_text, against, workload_name, target, task_name;
  bool full = false, as_json = false;
  Options options(
      "profile",
      "Shows a variant's bottlenecks on one workload: its position on the roofline, the unit that limits "
      "it, what its warps stall on and in which source lines, its occupancy and what limits that. Profiling "
      "is separate from all timing. VARIANT is a file, the name of a seed, or RUN:ID; append @NAME=VALUE,... "
      "to set tunables. Counters and source lines need a GPU and CUPTI; for a cpu variant the roofline and "
      "the machine code are shown.",
      "cultivar profile runs/attention-h100:best --full --against runs/attention-h100:seed\n  "
      "cultivar profile cuda_wgmma --task attention_forward --workload B4_H16_Sq8192_D128_bf16\n  "
      "cultivar profile my_kernel.cu@STAGES=3 --json");
  options.argument("VARIANT", variant_text, "the variant to profile");
  options.flag("--full", full, "collect all counters, in several passes (default: those of one pass)");
  options.option("--against", against,
                 "another variant, or `parent` for the parent of RUN:ID: show the differences");
  options.option("--workload", workload_name,
                 "the workload's name; if omitted, the most expensive one of the run or of the default set");
  options.option("--task", task_name,
                 "a task's name or folder; if omitted, the one in the variant's manifest");
  options.option("--target", target,
                 targets_in_help() + "; if omitted, the variant's target and its first device");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const Subject subject = subject_of(installation, variant_text, task_name);
  const Task task = load_task(subject.task_folder);
  const auto variant = make_variant(subject.source.source, task, subject.source.configuration);
  if (!variant) throw InputError(fmt::format("{}: {}", subject.source.origin, variant.error().text()));
  const Target kind = variant->manifest.target;
  const TargetChoice where = parse_target(installation, target.empty() ? name_of(kind) : target);
  if (where.kind != kind)
    throw InputError(fmt::format("{} is a variant for target {} and cannot run on {}", subject.source.origin,
                                 name_of(kind), target));
  const Workload workload = choose_workload(task, *variant, workload_name, subject.workloads);
  check_memory(task, {workload}, where.kind);

  std::optional<NamedSource> other;
  if (against == "parent") {
    if (subject.id == 0) throw InputError("`parent` needs an individual of a run: write RUN:ID");
    const Record record = open_run(installation, subject.run.string());
    const auto parents = record.individual(subject.id).value().individual.descent.parents;
    if (parents.empty())
      throw InputError(fmt::format(
          "#{} has no recorded parent: it is a seed, or it was submitted without --from", subject.id));
    other = find_source(installation, task, fmt::format("{}:{}", subject.run.string(), parents.front()), {});
  } else if (!against.empty()) {
    other = subject_of(installation, against, fs::absolute(subject.task_folder).string()).source;
  }

  Workbench bench(installation, task, where, true);
  const Profile profile = bench.profile(subject.source, workload, full);
  if (interrupted()) return 130;
  std::optional<Profile> parent;
  if (other) parent = bench.profile(*other, workload, full);
  if (interrupted()) return 130;
  output.facts(report_json(profile, parent ? &*parent : nullptr));
  output.line(report_text(profile, parent ? &*parent : nullptr));
  if (subject.id != 0) output.line(keep(subject, profile));
  return 0;
}

}  // namespace cultivar
