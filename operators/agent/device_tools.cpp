// SPDX-License-Identifier: Apache-2.0
// The tools that look at one kernel: compile, check, profile, assembly; and submit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "evaluators/judge/stages.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/agent/tool_job.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

std::string compiler_words(const Compiled& compiled) {
  std::string words;
  std::set<std::string> said;
  for (const Binary& binary : compiled.binaries) {
    words += fmt::format("- [{}]", fmt::join(binary.macros, " "));
    for (const auto& [name, value] : binary.resources.values) words += fmt::format(" {} {:.0f}", name, value);
    words += "\n";
  }
  for (const Binary& binary : compiled.binaries)
    if (!binary.log.empty() && said.insert(binary.log).second)
      words += fmt::format("The compiler says:\n{}", fenced(binary.log.substr(0, kCompilerBytes / 2)));
  return words;
}

}  // namespace

Answer compile_variant(ToolSession& session, const json& arguments, Watch& watch) {
  const auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  const auto turn = quiet_turn(session, watch);
  if (!turn) return passed_on(turn);
  const auto compiled = build(session, *job, watch);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!compiled) return rejected(session, job->subject, compiled.error());
  return fmt::format("{}\nIt compiles ({} machine codes, {:.1f} s):\n{}", named(job->subject),
                     compiled->binaries.size(), compiled->compile_seconds, compiler_words(*compiled));
}

Answer check_variant(ToolSession& session, const json& arguments, Watch& watch) {
  const auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  auto built = build_for_device(session, *job, watch);
  if (!built) return passed_on(built);
  if (!built->compiled) return rejected(session, job->subject, built->compiled.error());
  EvaluateRequest request;
  request.variant = std::move(*built->compiled);
  request.workloads = job->workloads;
  request.stop_after = stage_named(arguments.value("up_to", "edge")).value_or(Stage::edge);
  request.sampling = session.bench.sampling();
  Watch own = watch;
  own.progress = steps_of(*job, watch);
  const auto evaluation = session.bench.evaluate(request, own);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!evaluation) return refused(fmt::format("The kernel could not be run: {}", evaluation.error().message));
  if (!evaluation->measured())
    return rejected(session, job->subject, *evaluation) + spent(session, *built->turn);
  session.drafts.judged(job->subject.label, *evaluation);
  std::string passed;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::determinism, Stage::edge})
    if (stage <= request.stop_after)
      passed += fmt::format("{}{}", passed.empty() ? "" : ", ", name_of(stage));
  return fmt::format("{}\nPassed every check: {}. Not timed.\n", named(job->subject), passed) +
         spent(session, *built->turn);
}

Answer profile_variant(ToolSession& session, const json& arguments, Watch& watch) {
  auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  const std::string name = arguments.value("workload", "");
  if (!name.empty()) {
    auto one = workloads_for(session.bench, job->subject.variant, {name});
    if (!one) return passed_on(one);
    job->workloads = std::move(*one);
  }
  ProfileRequest request;
  request.workload = session.bench.task().most_expensive(job->workloads);
  job->workloads = {request.workload};
  std::optional<Profile> before;
  if (arguments.contains("against")) {
    const auto kernel = find_kernel(session, id_in(arguments, "against"));
    if (!kernel) return passed_on(kernel);
    before = kernel->profile;
    if (!before || before->workload != request.workload.name)
      return refused(fmt::format("There is no recorded profile of {} on {}: profile it too, then compare",
                                 kernel->row.id, request.workload.name));
  }
  auto built = build_for_device(session, *job, watch);
  if (!built) return passed_on(built);
  if (!built->compiled) return rejected(session, job->subject, built->compiled.error());
  request.variant = std::move(*built->compiled);
  request.full = arguments.value("full", false);
  request.sampling = within_budget(session, session.bench.sampling(), 1);
  Watch own = watch;
  own.progress = steps_of(*job, watch);
  const auto found = session.bench.profile(request, own);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!found) return refused(fmt::format("The kernel could not be run: {}", found.error().message));
  if (found->rejection)
    return rejected(session, job->subject, *found->rejection) + spent(session, *built->turn);
  return named(job->subject) + "\n" + report_text(found->profile, before ? &*before : nullptr) +
         spent(session, *built->turn);
}

Answer read_assembly(ToolSession& session, const json& arguments, Watch& watch) {
  auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  const std::string name = arguments.value("workload", "");
  auto one = workloads_for(session.bench, job->subject.variant,
                           name.empty() ? std::vector<std::string>() : std::vector{name});
  if (!one) return passed_on(one);
  job->workloads = {session.bench.task().most_expensive(*one)};
  const auto turn = quiet_turn(session, watch);
  if (!turn) return passed_on(turn);
  const auto compiled = build(session, *job, watch);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!compiled) return rejected(session, job->subject, compiled.error());
  const Variant& variant = job->subject.variant;
  const Binary* binary = compiled->binary(macros(variant, session.bench.task(), job->workloads.front()));
  if (binary == nullptr) return refused("The compiler made no code for this workload.");
  const auto loops = hot_loops_of(binary->path, variant.source);
  if (!loops)
    return refused(loops.error().message +
                   ". `profile` shows what is known of this kernel's code by source line");
  std::string text = fmt::format(
      "{}\nInnermost loops for {}, those that call functions first, then those inside the most other loops, "
      "with the source line of each instruction:\n",
      named(job->subject), job->workloads.front().name);
  if (loops->empty()) text += "None: the code has no loops.\n";
  for (const HotLoop& loop : *loops) {
    std::string code;
    for (const CodeLine& line : loop.code)
      code +=
          fmt::format("{:>5}  {}\n", line.line == 0 ? std::string() : std::to_string(line.line), line.text);
    if (loop.instructions > static_cast<int>(loop.code.size()))
      code += fmt::format("       ... {} instructions in all\n", loop.instructions);
    text += "\n" + words_of(loop) + "\n" + fenced(code);
  }
  return text;
}

Answer submit_variant_tool(ToolSession& session, const json& arguments, Watch&) {
  const auto subject = subject_of(session, arguments);
  if (!subject) return passed_on(subject);
  if (!subject->draft)
    return refused(fmt::format("{} is already in the run: submit a kernel that you changed", subject->label));
  const auto draft = session.drafts.find(subject->label);
  if (const std::string known = draft ? likeness(session, *draft) : std::string(); !known.empty())
    return refused(
        known +
        "It is not submitted. If yours differs in what matters, submit it again and say how in `note`.");
  const auto done = session.bench.submit(subject->variant, arguments.at("note").get<std::string>(),
                                         draft ? draft->origin : subject->base);
  if (!done) return refused(done.error().message);
  return named(*subject) + "\n" + *done + "\n";
}

}  // namespace cultivar
