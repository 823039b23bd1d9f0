// The tools that build and run a kernel: compile, check, benchmark, profile; and submit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "evaluators/judge/stages.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/agent/tool_session.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
using Workloads = std::vector<Workload>;
constexpr std::size_t kCompilerBytes = 12'000;

template <class T>
tl::unexpected<EditRefusal> passed_on(const tl::expected<T, EditRefusal>& trouble) {
  return tl::make_unexpected(trouble.error());
}

std::optional<EditRefusal> ended(const Watch& watch) {
  if (watch.stop.stop_requested()) return EditRefusal{"Cancelled."};
  if (watch.over())
    return EditRefusal{
        "Stopped: the time limit of this call or the session's device time is exhausted. There is no "
        "result."};
  return std::nullopt;
}

// The run's workloads that are requested and that the variant claims.
tl::expected<Workloads, EditRefusal> workloads_for(const Bench& bench, const Variant& variant,
                                                   const std::vector<std::string>& names) {
  std::vector<std::string> known;
  Workloads asked, mine;
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

std::vector<std::string> names_in(const json& arguments) {
  return arguments.value("workloads", std::vector<std::string>());
}

// Finds plans that are illegal, without a compiler.
std::optional<Evaluation> illegal(const Bench& bench, const Variant& variant, const Workloads& workloads) {
  const auto facts = bench.facts();
  if (!facts) return std::nullopt;
  if (const auto why = illegal_on(workloads, variant, bench.task(), *facts))
    return rejection(Stage::lint, why->message, why->text());
  return illegal_on_check_shapes(bench.task(), variant, workloads, *facts);
}

// A variant to compile and run.
struct Job {
  Subject subject;
  Workloads workloads;
};

tl::expected<Job, EditRefusal> job_of(ToolSession& session, const json& arguments) {
  auto subject = subject_of(session, arguments);
  if (!subject) return passed_on(subject);
  auto workloads = workloads_for(session.bench, subject->variant, names_in(arguments));
  if (!workloads) return passed_on(workloads);
  return Job{std::move(*subject), std::move(*workloads)};
}

// Both are valid answers: the binaries, or the reason for a rejection.
tl::expected<Compiled, Evaluation> build(ToolSession& session, const Job& job, const Watch& watch) {
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

// Takes the device before compiling if a compiler would disturb another call's timing.
struct Built {
  std::optional<DeviceTurns::Turn> turn;
  tl::expected<Compiled, Evaluation> compiled;
};
tl::expected<Built, EditRefusal> build_for_device(ToolSession& session, const Job& job, Watch& watch) {
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
  return Built{std::move(turn), std::move(compiled)};
}

// The time limit for each workload, from the remaining device time.
Sampling within_budget(const ToolSession& session, Sampling sampling, std::size_t workloads) {
  if (!(session.turns.limit() > 0.0)) return sampling;
  constexpr double least = 0.01;  // the limit must be positive
  const double left = session.turns.limit() - session.turns.used();
  sampling.max_seconds = std::min(
      sampling.max_seconds, std::max(least, left / static_cast<double>(std::max<std::size_t>(1, workloads))));
  sampling.screening_seconds = std::min(sampling.screening_seconds, sampling.max_seconds);
  return sampling;
}

std::function<void(const std::string&)> steps_of(const Job& job, const Watch& watch) {
  return [label = job.subject.label, &watch](const std::string& step) { watch.tell(label + ": " + step); };
}

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
  // Compiling needs no device, but must not disturb timing on these cores.
  std::optional<DeviceTurns::Turn> turn;
  if (session.bench.timing_needs_quiet()) {
    auto taken = session.turns.take(watch);
    if (!taken) return passed_on(taken);
    turn.emplace(std::move(*taken));
  }
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

Answer benchmark_variant(ToolSession& session, const json& arguments, Watch& watch) {
  const auto job = job_of(session, arguments);
  if (!job) return passed_on(job);
  // The kernel timed interleaved with it: the best so far, or the requested one.
  const std::string against = arguments.value("against", "");
  std::optional<Job> other;
  if (against != "none") {
    const auto kernel = find_kernel(session, against.empty() ? "best" : against);
    if (kernel && kernel->row.id != job->subject.label) {
      auto variant = variant_of(session.bench, *kernel);
      if (!variant) return passed_on(variant);
      Job beside{{kernel->row.id, std::move(*variant)}, {}};
      for (const Workload& workload : job->workloads)
        if (claims(beside.subject.variant, session.bench.task(), workload))
          beside.workloads.push_back(workload);
      if (!beside.workloads.empty()) other = std::move(beside);
    } else if (!kernel && !against.empty()) {
      return passed_on(kernel);
    }
  }
  auto built = build_for_device(session, *job, watch);
  if (!built) return passed_on(built);
  if (!built->compiled) return rejected(session, job->subject, built->compiled.error());
  EvaluateRequest request;
  request.variant = std::move(*built->compiled);
  request.workloads = job->workloads;
  request.stop_after = Stage::measure;
  request.sampling = session.bench.sampling();
  if (arguments.value("thorough", false)) {
    constexpr int kThorough = 4;
    request.sampling.max_samples *= kThorough;
    request.sampling.max_seconds *= kThorough;
  }
  request.sampling = within_budget(session, request.sampling, job->workloads.size());
  std::string remark;
  if (other) {
    auto compiled = build(session, *other, watch);
    if (auto over = ended(watch)) return tl::make_unexpected(*over);
    if (compiled)
      request.contenders.emplace_back(other->subject.label, std::move(*compiled));
    else
      remark = fmt::format("Not compared with {}: that kernel is rejected at `{}`: {}\n",
                           other->subject.label, name_of(compiled.error().stage), compiled.error().reason);
  }
  Watch own = watch;
  own.progress = steps_of(*job, watch);
  const auto evaluation = session.bench.evaluate(request, own);
  if (auto over = ended(watch)) return tl::make_unexpected(*over);
  if (!evaluation) return refused(fmt::format("The kernel could not be run: {}", evaluation.error().message));
  if (!evaluation->measured())
    return rejected(session, job->subject, *evaluation) + spent(session, *built->turn);
  // The fitness of a kernel is that of all its workloads.
  Evaluation judged = *evaluation;
  const auto all = workloads_for(session.bench, job->subject.variant, {});
  if (!all || all->size() != job->workloads.size()) judged.fitness = 0.0;
  session.drafts.judged(job->subject.label, judged);

  std::vector<Reference> references;
  double log_ratios = 0.0, variance = 0.0;  // of the sum of logarithms, from half of each interval's width
  int ratios = 0, bounded = 0;
  if (!request.contenders.empty()) {
    Reference reference{other->subject.label, {}};
    for (const Workload& workload : job->workloads) {
      double value = 0.0;
      std::optional<Interval> interval;
      for (const WorkloadResult& result : evaluation->workloads)
        if (const auto ratio = result.ratios.find(other->subject.label);
            result.workload == workload.name && ratio != result.ratios.end() && ratio->second > 0.0) {
          value = result.value / ratio->second;
          log_ratios += std::log(ratio->second);
          if (const auto bounds = result.ratio_intervals.find(other->subject.label);
              bounds != result.ratio_intervals.end() && bounds->second.lower > 0.0) {
            interval = bounds->second;
            variance += std::pow(std::log(interval->upper / interval->lower) / 2.0, 2.0);
            ++bounded;
          }
          ++ratios;
        }
      reference.values.push_back(value);
      reference.bounds.push_back(interval);
    }
    references.push_back(std::move(reference));
  }
  std::string text =
      named(job->subject) + "\n" + describe_measurements(judged, job->workloads, {}, references) + remark;
  if (ratios > 0)
    text += fmt::format(
        "\n{:.3f}x the speed of {}{}, geometric mean, timed interleaved. Across calls, compare only such "
        "ratios, not times, because the machine's speed varies. Only the gate decides whether a difference "
        "is "
        "more than noise.\n",
        std::exp(log_ratios / ratios), other->subject.label,
        bounded < ratios ? std::string()
                         : fmt::format(" (95 % interval {:.3f}x to {:.3f}x)",
                                       std::exp((log_ratios - std::sqrt(variance)) / ratios),
                                       std::exp((log_ratios + std::sqrt(variance)) / ratios)));
  if (!evaluation->diagnostics.empty()) text += evaluation->diagnostics + "\n";
  return text + spent(session, *built->turn);
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
    const auto kernel = find_kernel(session, arguments["against"].get<std::string>());
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

Answer submit_variant_tool(ToolSession& session, const json& arguments, Watch&) {
  const auto subject = subject_of(session, arguments);
  if (!subject) return passed_on(subject);
  if (!subject->draft)
    return refused(fmt::format("{} is already in the run: submit a kernel that you changed", subject->label));
  const auto draft = session.drafts.find(subject->label);
  const auto done = session.bench.submit(subject->variant, arguments.at("note").get<std::string>(),
                                         draft ? draft->origin : "");
  if (!done) return refused(done.error().message);
  return named(*subject) + "\n" + *done + "\n";
}

}  // namespace cultivar
