// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/workbench.hpp"
#include "evaluators/judge/cascade.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

Stage parse_stage(const std::string& text) {
  if (const auto stage = stage_named(text); stage && *stage != Stage::gate && *stage != Stage::profile)
    return *stage;
  std::vector<std::string> known;
  for (int i = 0; i <= static_cast<int>(Stage::confirm); ++i) {
    const auto stage = static_cast<Stage>(i);
    if (stage != Stage::gate && stage != Stage::profile) known.emplace_back(name_of(stage));
  }
  const std::string near = nearest_name(text, known);
  throw InputError(fmt::format("cannot stop after '{}' ({}the stages in order: {})", text,
                               near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                               fmt::join(known, ", ")));
}

Evaluation claims_nothing(const Variant& variant, const Task& task, const std::string& set) {
  std::string others;
  for (const WorkloadSet& each : task.workload_sets)
    if (!claimed(variant, task, each.workloads).empty())
      others += (others.empty() ? "" : " or ") + ("--workloads " + each.name);
  return rejection(Stage::lint, fmt::format("the variant claims no workload of the set {}", set),
                   others.empty() ? "It claims no workload of any other set either: widen its `requires`."
                                  : "Use a set with workloads that it claims: " + others);
}

void print(const std::string& variant, const std::string& id, const Evaluation& e,
           const std::vector<BeyondMemory>& beyond, bool beside, bool checks_only, const Output& output) {
  const std::string head = id.empty() ? variant : fmt::format("{} ({})", variant, short_id(id));
  if (!e.measured()) {
    std::string_view more = e.diagnostics, why = e.reason;
    if (more.starts_with(variant + ": "))
      more.remove_prefix(variant.size() + 2);  // the printed line begins with it
    const std::size_t first_line = std::min(more.find('\n'), more.size());
    if (more.ends_with(why) && first_line == more.size())
      std::swap(why, more), more = {};  // the same text, with its position
    else if (why.starts_with(more.substr(0, first_line)))
      more.remove_prefix(std::min(first_line + 1, more.size()));
    output.line(fmt::format("{}: rejected at {}: {}", head, name_of(e.stage), why));
    if (!more.empty()) output.line(std::string(more));
    if (e.coverage) output.line(e.coverage->text());
  } else if (e.workloads.empty()) {
    output.line(
        fmt::format("{}: passed every {} up to {}", head, checks_only ? "check" : "stage", name_of(e.stage)));
    if (e.coverage) output.line(e.coverage->text());
  } else {
    output.line(fmt::format("{}: {:.4g} {}\n{}", head, e.fitness, e.unit, evaluation_table(e, "  ")));
    for (const BeyondMemory& each : beyond) output.line("  " + each.words());
    if (const std::string exactness = exactness_table(e, "  "); !exactness.empty()) output.line(exactness);
    if (e.coverage) output.line(e.coverage->text());
    if (beside && !e.diagnostics.empty()) output.line(e.diagnostics);  // why a contender has no time
  }
  if (e.measured() && e.checked) output.line("  " + checked_words(*e.checked));
}

}  // namespace

int evaluate_command(const Arguments& arguments) {
  std::string task_name, target = name_of(usual_target()), set, stop_after = "measure";
  std::vector<std::string> variants, contenders, architectures;
  double prepare_deadline_s = ServiceOptions{}.prepare_deadline_s;
  std::string python = ServiceOptions{}.python;
  bool as_json = false, profiled = false, checks_only = false;
  Options options("evaluate",
                  "Checks and times variants, stage by stage, outside a search. A VARIANT is a file, the "
                  "name of one of the task's seeds, or RUN:ID; append @NAME=VALUE,... to set tunables.",
                  "cultivar evaluate attention_forward tiled my_kernel.cpp@BLOCK_M=64 --contender eigen");
  options.argument("TASK", task_name, "a task's name, or a folder with a task.yaml");
  options.arguments("VARIANT", variants, "the variants to evaluate");
  options.option("--target", target, targets_in_help() + "; 2 cores if omitted");
  options.option("--workloads", set, "a workload set of the task; if omitted, cpu_quick or quick");
  options.each("--contender", contenders,
               "also timed, interleaved with the variants: a name under the task's contenders/, a library by "
               "name (cudnn) or path (.so), PyTorch (torch, torch_compile), or a file");
  options.option("--stop-after", stop_after,
                 "the last stage: lint, compile, screen, smoke, sweep, stress, "
                 "determinism, edge, measure, confirm");
  options.flag(
      "--checks-only", checks_only,
      "all checks of --stop-after confirm, and nothing is timed: for kernels whose correctness alone is "
      "in question, also on a busy machine");
  options.each(
      "--arch", architectures,
      "cuda without a device: the architecture to compile for, for example sm_100a (if omitted, sm_90a)");
  options.flag("--profile", profiled,
               "also profile each measured variant on its most expensive workload (see `cultivar profile`)");
  options.option(
      "--python", python,
      "the interpreter for kernels in Triton, and for contenders that are Python programs (torch, FILE.py)");
  options.option("--prepare-deadline", prepare_deadline_s,
                 "seconds in which a contender must prepare one workload");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const Task task = load_task(find_task(installation, task_name));
  TargetChoice where = parse_target(installation, target);
  where.python = python;
  where.prepare_deadline_s = prepare_deadline_s;
  const std::vector<Workload>& workloads = choose_workloads(task, set, where.kind).workloads;
  if (set.empty())
    notify("Workloads: {} (--workloads names another set).\n", choose_workloads(task, set, where.kind).name);
  if (checks_only &&
      (profiled || !contenders.empty() || (stop_after != "measure" && stop_after != "confirm")))
    throw InputError(
        "--checks-only times nothing and makes every check: omit --profile, --contender and --stop-after");
  const Stage last = checks_only ? Stage::confirm : parse_stage(stop_after);
  const bool runs = last >= Stage::smoke;
  if (!architectures.empty() && (where.kind->architectures == nullptr || runs))
    throw InputError(
        fmt::format("--arch needs --target {} and --stop-after lint, compile or screen: a kernel that runs "
                    "is compiled for the GPU that runs it",
                    targets_with_architectures()));
  for (const std::string& each : architectures)
    if (const std::string trouble = where.kind->architectures->trouble(each); !trouble.empty())
      throw InputError("--arch: " + trouble);
  if (architectures.size() > 1)
    throw InputError("--arch accepts one architecture; run evaluate again for " + architectures.back());
  if (!(prepare_deadline_s > 0.0))
    throw InputError("--prepare-deadline must be a number of seconds above 0, for example 1200");
  if (profiled && last < Stage::measure)
    throw InputError(
        fmt::format("--profile needs a measurement, but --stop-after {} ends before that stage", stop_after));
  if (!architectures.empty()) where.architecture = architectures.front();
  std::vector<NamedSource> sources;
  std::vector<NamedContender> others;
  for (const std::string& each : variants)
    sources.push_back(find_source(installation, task, each, {"seeds", "contenders"}, where.kind));
  for (const std::string& each : contenders)
    others.push_back(find_contender(installation, task, where.kind, each, {"contenders", "seeds"}));
  for (std::size_t i = 0; i < others.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (others[i].label == others[j].label)
        throw InputError(fmt::format("--contender: '{}' and '{}' have the same name {}; rename one of them",
                                     contenders[j], contenders[i], others[i].label));

  // Told before the work, which may take minutes.
  ContenderTrials trials(installation);
  std::vector<ContenderTrouble> unusable;
  for (const NamedContender& each : others) {
    if (each.source) continue;
    const StepLine line("looking for the contender " + each.label);
    std::string trouble = trials.trouble(task.folder, where.kind, each.library, python);
    if (!trouble.empty())
      unusable.push_back(
          {each.label, ContenderTrouble::Kind::unusable, "the contender cannot be used", std::move(trouble)});
  }
  for (const ContenderTrouble& each : unusable)
    notify("Warning: contender {}: {}: {}\n", each.contender, each.reason, each.details);

  std::optional<Workbench> opened;
  try {
    opened.emplace(installation, task, where, runs);
  } catch (const MissingError& error) {
    throw MissingError(std::string(error.what()) +
                       ". Without a GPU, --stop-after screen compiles and inspects the variant");
  }
  Workbench& bench = *opened;
  std::vector<std::pair<std::string, Compiled>> beside;
  for (const NamedContender& each : others) {
    const StepLine line("compiling " + each.label);
    beside.emplace_back(each.label, bench.contender(each, workloads));
  }

  json all = json::array();
  bool every_one_measured = true;
  for (const NamedSource& source : sources) {
    std::string id;
    json report;
    Evaluation evaluation = [&]() -> Evaluation {
      const auto variant = bench.lint(source);
      if (!variant) return variant.error();
      id = variant->id;
      const std::vector<Workload> mine = claimed(*variant, task, workloads);
      if (mine.empty()) return claims_nothing(*variant, task, choose_workloads(task, set, where.kind).name);
      if (last >= Stage::edge) check_memory(task, mine, where.kind);  // drawn shapes are as large
      // With a device, later stages check the plans with its own facts.
      if (!runs)
        if (const auto legal = bench.check_plans(source, *variant, mine); !legal) return legal.error();
      if (last == Stage::lint) {
        Evaluation passed;
        passed.verdict = Evaluation::Verdict::measured;
        return passed;
      }
      StepLine line("compiling " + source.label);
      auto compiled =
          bench.compile(*variant, mine, last == Stage::confirm ? Breadth::confirming : Breadth::searching);
      if (!compiled) return compiled.error();
      if (last == Stage::compile || last == Stage::screen) {
        Evaluation passed;
        passed.verdict = Evaluation::Verdict::measured;
        passed.stage = last;
        if (!compiled->binaries.empty()) passed.resources = compiled->binaries.front().resources;
        passed.machine_code = machine_code(task, *compiled, mine);
        return passed;
      }
      EvaluateRequest request;
      request.variant = std::move(*compiled);
      request.workloads = mine;
      request.stop_after = last;
      request.every_row = true;
      request.exactness = !checks_only;
      request.checks_only = checks_only;
      request.contenders = beside;
      auto evaluated = bench.device().evaluate(
          request, [&](const std::string& step) { line.show(source.label + ": " + step); });
      if (!evaluated && interrupted()) return {};
      return must(std::move(evaluated));
    }();
    if (interrupted()) break;
    for (const ContenderTrouble& trouble : unusable)  // of stages that do not time it
      if (std::ranges::none_of(evaluation.contender_troubles,
                               [&](const auto& known) { return known.contender == trouble.contender; }))
        evaluation.contender_troubles.push_back(trouble);
    for (std::string* words : {&evaluation.reason, &evaluation.diagnostics})
      *words = in_words_of(source, std::move(*words));
    std::vector<BeyondMemory> beyond;
    if (evaluation.measured() && !evaluation.workloads.empty())
      if (const auto info = bench.device().info())
        beyond = beyond_memory(task, workloads, evaluation, info->ceilings, info->facts, where.kind);
    print(source.origin, id, evaluation, beyond, !beside.empty(), checks_only, output);
    if (profiled && evaluation.measured() && !evaluation.workloads.empty()) {
      const Variant variant = *bench.lint(source);
      const Profile profile =
          bench.profile(source, task.most_expensive(claimed(variant, task, workloads)), false);
      if (interrupted()) break;
      report = report_json(profile);
      output.line(report_text(profile));
    }
    all.push_back(evaluation_facts(source.origin, id, evaluation, report, beyond));
    every_one_measured = every_one_measured && evaluation.measured();
    for (const ContenderTrouble& trouble : evaluation.contender_troubles)  // it was asked for by name
      every_one_measured = every_one_measured && trouble.kind != ContenderTrouble::Kind::unusable;
  }
  output.facts(all);
  if (interrupted()) {
    notify("Interrupted: {} of {} variants were evaluated.\n", all.size(), sources.size());
    return 130;
  }
  return every_one_measured ? 0 : 1;
}

}  // namespace cultivar
