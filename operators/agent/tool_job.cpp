// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/tool_job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/judge/stages.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// Finds plans that are illegal, without a compiler.
std::optional<Evaluation> illegal(const Bench& bench, const Variant& variant,
                                  const std::vector<Workload>& workloads) {
  const auto facts = bench.facts();
  if (!facts) return std::nullopt;
  if (const auto why = illegal_on(workloads, variant, bench.task(), *facts))
    return rejection(Stage::lint, why->message, why->text());
  return illegal_on_check_shapes(bench.task(), variant, *facts);
}

}  // namespace

std::optional<EditRefusal> ended(const Watch& watch) {
  if (watch.stop.stop_requested()) return EditRefusal{"Cancelled."};
  if (watch.over())
    return EditRefusal{
        "Stopped: the time limit of this call or the session's device time is exhausted. There is no "
        "result."};
  return std::nullopt;
}

tl::expected<std::vector<Workload>, EditRefusal> workloads_for(const Bench& bench, const Variant& variant,
                                                               const std::vector<std::string>& names) {
  std::vector<std::string> known;
  std::vector<Workload> asked, mine;
  for (const Workload& workload : bench.workloads()) {
    known.push_back(workload.name);
    if (names.empty() || std::ranges::find(names, workload.name) != names.end()) asked.push_back(workload);
  }
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      return refused(fmt::format("There is no workload `{}`{}", name, did_you_mean(name, known)));
  for (const Workload& workload : asked)
    if (claims(variant, bench.task(), workload)) mine.push_back(workload);
  if (mine.empty())
    return refused(fmt::format("The kernel claims none of these workloads; its manifest requires `{}`",
                               variant.manifest.requires_ ? variant.manifest.requires_->text() : "nothing"));
  return mine;
}

tl::expected<ToolJob, EditRefusal> job_for(ToolSession& session, Subject subject, const json& arguments) {
  auto workloads =
      workloads_for(session.bench, subject.variant, arguments.value("workloads", std::vector<std::string>()));
  if (!workloads) return passed_on(workloads);
  return ToolJob{std::move(subject), std::move(*workloads)};
}

tl::expected<ToolJob, EditRefusal> job_of(ToolSession& session, const json& arguments) {
  auto subject = subject_of(session, arguments);
  if (!subject) return passed_on(subject);
  return job_for(session, std::move(*subject), arguments);
}

tl::expected<Compiled, Evaluation> build(ToolSession& session, const ToolJob& job, const Watch& watch) {
  if (auto why = illegal(session.bench, job.subject.variant, job.workloads)) return tl::make_unexpected(*why);
  watch.tell("compiling " + job.subject.label);
  return session.bench.compile(job.subject.variant, job.workloads, watch);
}

std::string named(const Subject& subject) {
  return fmt::format(
      "{} ({}{}{})", subject.label, subject.variant.manifest.name,
      subject.variant.configuration.empty() ? "" : ", ",
      subject.variant.configuration.empty() ? "" : describe_configuration(subject.variant.configuration));
}

std::string rejected(ToolSession& session, const Subject& subject, const Evaluation& why) {
  session.drafts.judged(subject.label, why);
  return named(subject) + "\n" + describe_rejection(why, kCompilerBytes);
}

std::string spent(const ToolSession& session, const DeviceTurns::Turn& turn) {
  const double before = session.turns.used(), limit = session.turns.limit();
  std::string words = fmt::format("\nThe device was used for {:.1f} s.", turn.seconds());
  if (limit > 0.0)
    words += fmt::format(" Of this session's {:.0f} s, {:.0f} s are left.", limit,
                         std::max(0.0, limit - before - turn.seconds()));
  const std::string caveat = session.bench.caveat();
  return words + "\n" + (caveat.empty() ? "" : caveat + "\n");
}

tl::expected<std::optional<DeviceTurns::Turn>, EditRefusal> quiet_turn(ToolSession& session, Watch& watch) {
  if (!session.bench.timing_needs_quiet()) return std::nullopt;
  auto taken = session.turns.take(watch);
  if (!taken) return passed_on(taken);
  return std::optional<DeviceTurns::Turn>(std::move(*taken));
}

tl::expected<BuiltJob, EditRefusal> build_for_device(ToolSession& session, const ToolJob& job, Watch& watch) {
  std::optional<DeviceTurns::Turn> turn;
  const auto take = [&]() -> std::optional<EditRefusal> {
    auto taken = session.turns.take(watch);
    if (!taken) return taken.error();
    turn.emplace(std::move(*taken));
    return std::nullopt;
  };
  if (session.bench.timing_needs_quiet())
    if (auto no = take()) return tl::make_unexpected(*no);
  auto compiled = build(session, job, watch);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (compiled && !turn)
    if (auto no = take()) return tl::make_unexpected(*no);
  return BuiltJob{std::move(turn), std::move(compiled)};
}

Sampling within_budget(const ToolSession& session, Sampling sampling, std::size_t workloads) {
  if (!(session.turns.limit() > 0.0)) return sampling;
  constexpr double least = 0.01;  // the limit must be positive
  const double left = session.turns.limit() - session.turns.used();
  sampling.max_seconds = std::min(
      sampling.max_seconds, std::max(least, left / static_cast<double>(std::max<std::size_t>(1, workloads))));
  sampling.screening_seconds = std::min(sampling.screening_seconds, sampling.max_seconds);
  return sampling;
}

std::function<void(const std::string&)> steps_of(const ToolJob& job, const Watch& watch) {
  return [label = job.subject.label, &watch](const std::string& step) { watch.tell(label + ": " + step); };
}

}  // namespace cultivar
