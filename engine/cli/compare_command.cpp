// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/workbench.hpp"
#include "population/individual.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

json number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

// Speeds of A over B, all of one comparison in one form: small differences as "+1.25 %"; from 1.1x on, or
// down, as "3.18x".
class SpeedWords {
 public:
  explicit SpeedWords(double log_ratio)
      : as_ratios_(std::isfinite(log_ratio) && std::fabs(log_ratio) >= std::log(1.1)) {}
  bool as_ratios() const { return as_ratios_; }
  std::string text(double log_ratio) const {
    if (!std::isfinite(log_ratio)) return "?";
    return as_ratios_ ? ratio_words(std::exp(log_ratio))
                      : fmt::format("{:+.2f} %", 100.0 * std::expm1(log_ratio));
  }

 private:
  bool as_ratios_;
};

using Rejected = std::function<void(const Evaluation&)>;  // tells the rejection of a side

Compiled compiled_side(Workbench& bench, const NamedContender& source, const std::vector<Workload>& workloads,
                       const Rejected& rejected) {
  std::optional<StepLine> line("compiling " + source.label);
  if (!source.source) return bench.contender(source, workloads);
  auto compiled = bench.contender_or_rejection(*source.source, workloads);
  if (compiled) return std::move(*compiled);
  line.reset();
  rejected(compiled.error());
  raise_rejection(*source.source, compiled.error());
}

// Returns how exact it is beside the other side; empty for a library, whose outputs the gate checks.
std::vector<Exactness> check(Workbench& bench, const Task& task, const NamedContender& source,
                             const Compiled& compiled, const Compiled& other,
                             const std::vector<Workload>& workloads, const Rejected& rejected) {
  if (compiled.is_library()) return {};
  std::optional<StepLine> line("checking " + source.label);
  const auto refuse = [&](const Evaluation& why) {
    line.reset();
    rejected(why);
    raise_rejection(*source.source, why);
  };
  if (claimed(compiled.variant, task, workloads).size() != workloads.size())
    refuse(rejection(
        Stage::lint, "does not claim every workload of this comparison",
        "it does not claim every workload of this comparison; choose another set with --workloads"));
  EvaluateRequest request;
  request.variant = compiled;
  request.workloads = workloads;
  request.stop_after = Stage::edge;
  request.exactness = true;
  request.contenders.emplace_back("the other", other);
  const Evaluation evaluation = must(bench.device().evaluate(
      request, [&](const std::string& step) { line->show(source.label + ": " + step); }));
  if (!evaluation.measured()) refuse(evaluation);
  return evaluation.exactness;
}

// The errors of B are known relative to A's where only B could be checked.
json exactness_facts(const std::vector<Exactness>& of_a, const std::vector<Exactness>& of_b) {
  json all = json::array();
  for (const Exactness& e : of_a.empty() ? of_b : of_a) {
    const auto other = e.contenders.find("the other");
    const json mine = e.error, theirs = other == e.contenders.end() ? json() : json(other->second);
    all.push_back({{"distribution", e.distribution},
                   {"a", of_a.empty() ? theirs : mine},
                   {"b", of_a.empty() ? mine : theirs}});
  }
  return all;
}

std::string exactness_text(const json& facts) {
  Table table({"error / permitted", "A rms", "A max", "B rms", "B max", "rms A / B"});
  const auto figure = [](const json& side, const char* what) {
    return side.is_null() ? std::string("-") : fmt::format("{:.3g}", side.at(what).get<double>());
  };
  for (const json& e : facts) {
    const json &a = e.at("a"), &b = e.at("b");
    const bool both = !a.is_null() && !b.is_null() && b.at("rms").get<double>() > 0.0;
    table.row({e.at("distribution").get<std::string>(), figure(a, "rms"), figure(a, "max"), figure(b, "rms"),
               figure(b, "max"),
               both ? fmt::format("{:.3g}", a.at("rms").get<double>() / b.at("rms").get<double>()) : "-"});
  }
  return table.text("  ");
}

}  // namespace

int compare_command(const Arguments& arguments) {
  std::string task_name, a, b, target = name_of(usual_target()), set;
  GateOptions gate;
  double prepare_deadline_s = ServiceOptions{}.prepare_deadline_s;
  std::string python = ServiceOptions{}.python;
  bool as_json = false;
  Options options("compare",
                  "Tests whether A is faster than B: timed in interleaved, randomized pairs, every output "
                  "checked. A and B are files, names of the task's seeds, or RUN:ID; append @NAME=VALUE,... "
                  "to set tunables. Either may also be a contender: a library by name (cudnn) or path (.so), "
                  "torch, torch_compile, or a Python program (.py).",
                  "cultivar compare attention_forward runs/quickstart:best tiled");
  options.argument("TASK", task_name, "a task's name, or a folder with a task.yaml");
  options.argument("A", a, "the challenger");
  options.argument("B", b, "the incumbent");
  options.option("--target", target, targets_in_help() + "; 2 cores if omitted");
  options.option("--workloads", set, "a workload set of the task; if omitted, cpu_quick or quick");
  options.option("--min-gain", gate.min_gain,
                 "the gain that A must show to count as better, for example 0.005 for 0.5 %");
  options.option(
      "--max-seconds", gate.max_device_seconds,
      "limit on device time; no pairs begin, except the first, that would exceed it. If omitted, 10, "
      "and more for kernels so slow that a verdict needs it");
  options.option(
      "--python", python,
      "the interpreter for kernels in Triton, and for contenders that are Python programs (torch, FILE.py)");
  options.option("--prepare-deadline", prepare_deadline_s,
                 "seconds in which a contender must prepare one workload");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const bool limited = std::ranges::any_of(
      arguments, [](const std::string& word) { return word.starts_with("--max-seconds"); });
  if (!(gate.min_gain >= 0.0 && gate.min_gain < 1.0))
    throw InputError("--min-gain must be a fraction from 0 to below 1, for example 0.005 for 0.5 %");
  if (!(prepare_deadline_s > 0.0))
    throw InputError("--prepare-deadline must be a number of seconds above 0, for example 1200");
  if (!(gate.max_device_seconds > 0.0 && gate.max_device_seconds <= 86400.0))
    throw InputError(
        "--max-seconds must be a number of seconds above 0 and at most 86400 (a day), for example 10");

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const Task task = load_task(find_task(installation, task_name));
  TargetChoice where = parse_target(installation, target);
  where.python = python;
  where.prepare_deadline_s = prepare_deadline_s;
  const NamedContender challenger = find_side(installation, task, where.kind, a);
  const NamedContender incumbent = find_side(installation, task, where.kind, b);
  const std::vector<Workload>& workloads = choose_workloads(task, set, where.kind).workloads;
  check_memory(task, workloads, where.kind);

  const auto rejected = [&](const char* side) {
    return [&, side](const Evaluation& why) {
      if (interrupted()) return;
      output.facts({{"task", task.name},
                    {"a", a},
                    {"b", b},
                    {"verdict", "rejected"},
                    {"side", side},
                    {"stage", name_of(why.stage)},
                    {"reason", why.reason},
                    {"diagnostics", why.diagnostics}});
    };
  };
  ContenderTrials trials(installation);
  for (const auto& [side, named] : {std::pair{"a", &challenger}, std::pair{"b", &incumbent}}) {
    if (named->source) continue;
    const std::string why = trials.trouble(task.folder, where.kind, named->library, python);
    if (why.empty()) continue;
    rejected(side)(rejection(Stage::lint, "the contender cannot be used", why));
    throw std::runtime_error(fmt::format("the contender {} cannot be used: {}", named->origin, why));
  }

  Workbench bench(installation, task, where, true);
  GateRequest request;
  request.challenger = compiled_side(bench, challenger, workloads, rejected("a"));
  request.incumbent = compiled_side(bench, incumbent, workloads, rejected("b"));
  const auto of_a =
      check(bench, task, challenger, request.challenger, request.incumbent, workloads, rejected("a"));
  const auto of_b =
      check(bench, task, incumbent, request.incumbent, request.challenger, workloads, rejected("b"));
  const json exactness = exactness_facts(of_a, of_b);
  request.control = request.incumbent;
  request.workloads = workloads;
  request.options = gate;
  request.within_limit = limited;
  request.seed = std::random_device{}();
  std::optional<StepLine> line("gate");
  const GateReport report =
      must(bench.device().gate(request, [&](const std::string& step) { line->show(step); }));
  line.reset();
  if (interrupted()) return 130;

  const Decision& d = report.decision;
  const SpeedWords speeds(d.log_ratio);
  json rows = json::array();
  Table table({"workload", "A", "B", "A beside B", "lower bound", "upper bound"});
  for (std::size_t i = 0; i < d.workloads.size(); ++i) {
    const WorkloadRatio& w = d.workloads[i];
    const double mine = i < report.challenger_seconds.size() ? report.challenger_seconds[i] : NAN;
    const double other = i < report.incumbent_seconds.size() ? report.incumbent_seconds[i] : NAN;
    table.row({w.workload, time_of(mine * 1e6), time_of(other * 1e6), speeds.text(w.log_ratio),
               speeds.text(w.lower), speeds.text(w.upper)});
    rows.push_back({{"name", w.workload},
                    {"a_median_us", number(mine * 1e6)},
                    {"b_median_us", number(other * 1e6)},
                    {"ratio", number(std::exp(w.log_ratio))},
                    {"lower", number(std::exp(w.lower))},
                    {"upper", number(std::exp(w.upper))}});
  }
  const auto least =
      std::min_element(d.workloads.begin(), d.workloads.end(),
                       [](const auto& one, const auto& other) { return one.log_ratio < other.log_ratio; });
  output.facts({{"task", task.name},
                {"a", a},
                {"b", b},
                {"a_id", request.challenger.variant.id},
                {"b_id", request.incumbent.variant.id},
                {"verdict", name_of(d.verdict)},
                {"reason", d.reason},
                {"ratio", number(std::exp(d.log_ratio))},
                {"lower", number(std::exp(d.lower))},
                {"upper", number(std::exp(d.upper))},
                {"lowest_on", least == d.workloads.end() ? json() : json(least->workload)},
                {"blocks", d.blocks},
                {"batches", d.batches},
                {"runs", d.runs},
                {"device_seconds", d.device_seconds},
                {"control_drift", number(d.control_drift)},
                {"workloads", rows},
                {"exactness", exactness},
                {"trouble", report.trouble}});
  output.line("A = " + a + "\nB = " + b + "\n");
  if (request.challenger.variant.id == request.incumbent.variant.id)
    output.line("A and B are the same kernel with the same configuration.\n");
  if (d.blocks > 0 || d.batches > 0)
    output.line(table.text("  ") +
                "  Times are medians; A beside B and its bounds come from pairs of runs (?: too few pairs).");
  if (!exactness.empty()) output.line(exactness_text(exactness));
  for (const std::string& trouble : report.trouble) output.line("error: " + trouble);
  if (!report.trouble.empty()) {
    output.line("No verdict: one of the kernels failed during timing.");
    return 1;
  }
  const std::string figures =
      fmt::format("{}{} block{}, {} of device time",
                  d.batches > 0 ? fmt::format("{} runs in random order, ", d.runs) : "", d.blocks,
                  d.blocks == 1 ? "" : "s", duration(d.device_seconds));
  if (d.workloads.size() > 1)
    output.line(fmt::format("Of all workloads A gains least on {}: {}.", least->workload,
                            speeds.text(least->log_ratio)));
  const bool from = std::isfinite(d.lower), to = std::isfinite(d.upper);
  const std::string range =
      fmt::format("{} ({})", speeds.text(d.log_ratio),
                  from && to ? fmt::format("between {} and {}", speeds.text(d.lower), speeds.text(d.upper))
                  : from     ? "at least " + speeds.text(d.lower)
                  : to       ? "at most " + speeds.text(d.upper)
                             : std::string("too few pairs for bounds"));
  // The gate's words are in percent. Ratios with their bounds need none, except for a loss on one workload.
  const bool refused = d.verdict == Verdict::worse && d.log_ratio > 0.0;
  const std::string reason =
      !speeds.as_ratios() ? " " + d.reason + "."
      : refused ? fmt::format(" No workload may be below {}.", ratio_words(1.0 - gate.max_workload_loss))
                : "";
  switch (d.verdict) {
    case Verdict::better:
      output.line(fmt::format("A is better than B: {}. {}.", range, figures));
      break;
    case Verdict::worse:
      output.line(fmt::format("A is not better than B: {}. {}.{}", range, figures, reason));
      break;
    case Verdict::undecided:
      output.line(fmt::format("Undecided: {}. {}.{} To allow more time, add --max-seconds {:.0f}", range,
                              figures, reason, std::min(4 * gate.max_device_seconds, 86400.0)));
      break;
  }
  return 0;
}

}  // namespace cultivar
