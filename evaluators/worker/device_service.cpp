#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "evaluators/check/contender_side.hpp"
#include "evaluators/check/stages.hpp"
#include "evaluators/foreign_json.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/protocol.hpp"
#include "evaluators/worker/sanitizing.hpp"

namespace cultivar {
namespace {

constexpr double kInfoSeconds = 300.0;  // ceilings are measured when they are new
constexpr double kSlackSeconds = 60.0;  // oracle, inputs, opening sessions
constexpr double kProfileSeconds =
    120.0;  // of one part: the profiler's own work, which saves and restores memory
constexpr double kMostPasses = 20.0;

using Progress = std::function<void(const std::string&)>;

// "stress B1_H2 needle" -> stress
Stage stage_of(const std::string& progress, Stage otherwise) {
  const auto stage = stage_named(progress.substr(0, progress.find_first_of(" :")));
  return stage.value_or(otherwise);
}

// Of a part that failed: only why.
void last_words_of(const Profile& failed, Profile& into) {
  Profile words;
  words.missing = failed.missing;
  merge(into, words);
}

}  // namespace

struct DeviceService::State {
  explicit State(ServiceOptions given)
      : options(std::move(given)), task(load_task(options.task_folder)), link(options, "measure") {
    if (options.target == TargetKind::cuda) sanitizing.emplace(options);
  }

  // Twice at most: a worker that was killed from outside says nothing about the candidate. But one that did
  // not come back from a contender's library says something of that.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double deadline_s,
                                                 double quiet_s, const Progress& progress, bool* lost) {
    if (served++ >= options.recycle_after) {
      link.stop();
      served = 1;
    }
    auto answer = link.call(request, deadline_s, quiet_s, progress);
    if (!answer && blamed(answer.error()).empty() && answer.error().kind == LinkTrouble::Kind::lost) {
      *lost = true;
      answer = link.call(request, deadline_s, quiet_s, progress);
    }
    if (!answer && blamed(answer.error()).empty() && answer.error().kind == LinkTrouble::Kind::timed_out)
      *lost = true;
    return answer;
  }

  // What a contender's library was at when it cost the worker (see contender_progress); empty: none has.
  static std::string blamed(const LinkTrouble& trouble) {
    using Kind = LinkTrouble::Kind;
    const bool worker_gone = trouble.kind == Kind::lost || trouble.kind == Kind::timed_out;
    const std::string words = worker_gone                     ? trouble.last_progress
                              : trouble.kind == Kind::refused ? trouble.error.stage + ": "
                                                              : std::string();
    return contender_in_progress(words) ? words : std::string();
  }

  // The libraries that are left out after this trouble, with the reason; empty: it is none of theirs.
  static std::string leave_out(std::vector<std::pair<std::string, Compiled>>& contenders,
                               const LinkTrouble& trouble) {
    std::vector<std::string> libraries;
    for (const auto& [name, compiled] : contenders)
      if (compiled.is_library()) libraries.push_back(compiled.variant.manifest.name);
    const std::string culprit = contender_in_progress(blamed(trouble), libraries);
    // A library may have left a thread or a broken heap behind, which strikes later: once more without any.
    if (culprit.empty() && trouble.kind != LinkTrouble::Kind::lost) return {};
    std::string words;
    std::erase_if(contenders, [&](const auto& contender) {
      const std::string& name = contender.second.variant.manifest.name;
      const bool out = contender.second.is_library() && (culprit.empty() || name == culprit);
      if (out)
        words +=
            fmt::format("contender {}: {}, and is left out\nwhile at: {}\n{}\n", name,
                        culprit.empty() ? "it was there when the worker was lost" : "it has cost the worker",
                        trouble.last_progress, trouble.error.message);
      return out;
    });
    return words;
  }

  double quiet_seconds() const { return 2 * options.run_deadline_s + kSlackSeconds; }

  // Generous: each single run keeps its own deadline; this one bounds their sum.
  double deadline_of(const EvaluateRequest& r) const {
    std::size_t checks = r.holdout.size() + 10;
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::edge})
      checks += claimed_shapes(task, stage, r.variant.variant).size();
    checks += claimed_shapes(task, Stage::stress, r.variant.variant).size() * task.stress.size();
    const double sides = 1.0 + static_cast<double>(r.contenders.size());
    const double one = r.contenders.empty() ? r.sampling.screening_seconds : 4 * r.sampling.max_seconds;
    const double least = (r.sampling.min_samples + 2) * options.run_deadline_s;
    return kSlackSeconds + static_cast<double>(checks) * options.run_deadline_s +
           static_cast<double>(r.workloads.size()) * sides * (one + least);
  }

  ServiceOptions options;
  Task task;
  WorkerLink link;
  std::optional<Sanitizing> sanitizing;
  int served = 0;
  std::optional<DeviceInfo> info;
};

DeviceService::DeviceService(ServiceOptions options) : state_(std::make_unique<State>(std::move(options))) {}
DeviceService::~DeviceService() = default;

Expected<DeviceInfo> DeviceService::info() {
  if (state_->info) return *state_->info;
  bool lost = false;
  const auto answer = state_->call({{"request", "info"}}, kInfoSeconds, kInfoSeconds, {}, &lost);
  if (!answer) return tl::make_unexpected(answer.error().error);
  try {
    state_->info = protocol::device_info(*answer);
  } catch (const nlohmann::json::exception& e) {
    return failure("protocol", fmt::format("the worker described its device in a way that makes no sense: {}",
                                           said_shortly(e)));
  }
  return *state_->info;
}

// What no output shows; a best must be free of it.
void DeviceService::sanitize(const EvaluateRequest& request, Evaluation& evaluation,
                             const std::function<void(const std::string&)>& progress) {
  if (!state_->sanitizing) return;
  SanitizerOutcome outcome = state_->sanitizing->run(request.variant, progress);
  if (!outcome.note.empty()) evaluation.diagnostics += fmt::format("not sanitized: {}\n", outcome.note);
  if (!outcome.rejection) return;
  evaluation.verdict = Evaluation::Verdict::rejected;
  evaluation.stage = outcome.rejection->stage;
  evaluation.reason = outcome.rejection->reason;
  evaluation.diagnostics = outcome.rejection->diagnostics + evaluation.diagnostics;
  evaluation.fitness = 0.0;
}

Expected<Evaluation> DeviceService::evaluate(const EvaluateRequest& request, const Progress& progress) {
  if (request.stop_after == Stage::confirm) state_->link.stop();  // a fresh process
  bool lost = false;
  EvaluateRequest asked = request;
  std::string left_out;  // contenders that cost a worker, and how
  tl::expected<nlohmann::json, LinkTrouble> answer;
  while (true) {
    const nlohmann::json message = {{"request", "evaluate"}, {"evaluate", protocol::from(asked)}};
    answer = state_->call(message, state_->deadline_of(asked), state_->quiet_seconds(), progress, &lost);
    const std::string words = answer ? std::string() : State::leave_out(asked.contenders, answer.error());
    if (words.empty()) break;
    left_out += words;
  }
  if (answer) {
    try {
      Evaluation evaluation = answer->get<Evaluation>();
      evaluation.diagnostics = left_out + evaluation.diagnostics;
      evaluation.worker_lost = lost;
      if (request.stop_after == Stage::confirm && evaluation.measured())
        sanitize(request, evaluation, progress);
      return evaluation;
    } catch (const nlohmann::json::exception& e) {
      return failure("protocol", fmt::format("the worker's evaluation makes no sense: {}", said_shortly(e)));
    }
  }
  const LinkTrouble& why = answer.error();
  const bool candidate = why.kind == LinkTrouble::Kind::timed_out || why.kind == LinkTrouble::Kind::lost;
  if (!candidate) return tl::make_unexpected(why.error);
  const bool late = why.kind == LinkTrouble::Kind::timed_out;
  Evaluation evaluation =
      rejection(stage_of(why.last_progress, Stage::smoke), late ? "timed out" : "the worker was lost twice",
                fmt::format("while at: {}\n{}\n", why.last_progress.empty() ? "start" : why.last_progress,
                            why.error.message));
  evaluation.input_seed = request.seed;
  evaluation.compile_seconds = request.variant.compile_seconds;
  evaluation.worker_lost = true;
  evaluation.late = late;
  return evaluation;
}

Expected<GateReport> DeviceService::gate(const GateRequest& request, const Progress& progress) {
  bool lost = false;
  const nlohmann::json message = {{"request", "gate"}, {"gate", protocol::from(request)}};
  const double warm_up = 9.0 * static_cast<double>(request.workloads.size()) * state_->options.run_deadline_s;
  const double deadline = kSlackSeconds + 4 * request.options.max_device_seconds + warm_up;
  const auto answer = state_->call(message, deadline, state_->quiet_seconds() + warm_up, progress, &lost);
  if (answer) {
    try {
      GateReport report = protocol::gate_report(*answer);
      report.worker_lost = lost;
      return report;
    } catch (const nlohmann::json::exception& e) {
      return failure("protocol",
                     fmt::format("the worker's report of the gate makes no sense: {}", said_shortly(e)));
    }
  }
  const LinkTrouble& why = answer.error();
  if (why.kind != LinkTrouble::Kind::timed_out && why.kind != LinkTrouble::Kind::lost)
    return tl::make_unexpected(why.error);
  GateReport report;  // nothing is known: undecided never replaces
  report.decision.verdict = Verdict::undecided;
  report.decision.reason = "the worker was lost";
  report.trouble.push_back(fmt::format("while at: {}\n{}", why.last_progress, why.error.message));
  report.challenger_seconds.resize(request.workloads.size());
  report.incumbent_seconds.resize(request.workloads.size());
  report.worker_lost = true;
  return report;
}

Expected<ProfilePartial> DeviceService::profile(const ProfileRequest& request, const Progress& progress) {
  const double deadline = kSlackSeconds + kProfileSeconds + kMostPasses * state_->options.run_deadline_s;
  const auto part = [&](const ProfileRequest& one) -> tl::expected<ProfilePartial, LinkTrouble> {
    bool lost = false;
    const nlohmann::json message = {{"request", "profile"}, {"profile", protocol::from(one)}};
    const auto answer =
        state_->call(message, deadline, state_->quiet_seconds() + kProfileSeconds, progress, &lost);
    if (!answer) return tl::make_unexpected(answer.error());
    try {
      return protocol::profile_partial(*answer);
    } catch (const nlohmann::json::exception& e) {
      return tl::make_unexpected(
          LinkTrouble{LinkTrouble::Kind::refused,
                      {"protocol", fmt::format("the worker's profile makes no sense: {}", said_shortly(e))},
                      {}});
    }
  };
  ProfileRequest one = request;
  one.part = ProfilePart::timing;
  auto timed = part(one);
  if (!timed &&
      (timed.error().kind == LinkTrouble::Kind::timed_out || timed.error().kind == LinkTrouble::Kind::lost)) {
    ProfilePartial failed;
    failed.rejection = rejection(Stage::profile, "the worker was lost with it", timed.error().error.message);
    return failed;
  }
  if (!timed) return tl::make_unexpected(timed.error().error);
  if (timed->rejection || state_->options.target != TargetKind::cuda) return std::move(*timed);
  ProfilePartial whole = std::move(*timed);
  one.median_us = whole.profile.median_us;

  // Not a fault of the variant: the search and the user go on with what is known.
  const auto instrumented = [&](const char* what) -> Expected<bool> {
    state_->link.stop();
    auto found = part(one);
    state_->link.stop();
    if (found && !found->rejection) {
      if (!found->again)
        merge(whole.profile, found->profile);
      else
        last_words_of(found->profile, whole.profile);
      return found->again;
    }
    if (!found && found.error().kind == LinkTrouble::Kind::interrupted)
      return tl::make_unexpected(found.error().error);
    whole.profile.missing.push_back(
        fmt::format("{}: {}", what, found ? found->rejection->reason : found.error().error.message));
    return true;
  };
  one.part = ProfilePart::stalls;
  if (auto sampled = instrumented("stall reasons by source line"); !sampled)
    return tl::make_unexpected(sampled.error());
  one.part = ProfilePart::counters;
  const std::vector<std::string> known = whole.profile.missing;
  auto counted = instrumented("counters");
  if (counted) whole.profile.replay = "each kernel's launch repeated";
  if (counted && *counted) {
    const std::string first = whole.profile.missing.empty() ? "" : whole.profile.missing.back();
    one.replay = Instruments::Replay::by_run;
    counted = instrumented("counters, whole runs repeated");
    if (counted && !*counted) {
      whole.profile.missing = known;
      whole.profile.replay = "whole runs repeated, because repeating launches failed: " + first;
    }
  }
  if (!counted) return tl::make_unexpected(counted.error());
  return whole;
}

void DeviceService::interrupt() {
  state_->link.interrupt();
  if (state_->sanitizing) state_->sanitizing->interrupt();
}

}  // namespace cultivar
