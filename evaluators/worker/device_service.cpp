// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "evaluators/judge/check_build_runs.hpp"
#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/judge/large_check.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/protocol.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {
namespace {

constexpr double kDeviceInfoSeconds = 300.0;  // includes measuring peak rates if they are not cached
constexpr double kSlackSeconds = 60.0;        // for the oracle, inputs and opening of sessions
constexpr double kProfileSeconds = 120.0;     // for one part: the profiler saves and restores memory
constexpr double kMostPasses = 20.0;

using Progress = std::function<void(const std::string&)>;

// Takes only the reason of a failed part.
void last_words_of(const Profile& failed, Profile& into) {
  Profile words;
  words.missing = failed.missing;
  merge(into, words);
}

}  // namespace

struct DeviceService::State {
  explicit State(ServiceOptions given)
      : options(std::move(given)), task(load_task(options.task_folder)), link(options, "measure") {
    if (options.target->second_look != nullptr) second_look = options.target->second_look(options);
  }

  // At most two attempts: a worker that was killed from outside proves nothing about the candidate. A worker
  // that did not return from a contender's library is not retried here, because the contender is responsible;
  // nor with a launcher, whose scheduler may take hours to start another, while other workers are there.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double deadline_s,
                                                 double quiet_s, const Progress& progress, bool* lost,
                                                 const WorkerLink::Enough& enough = {}) {
    if (served++ >= options.recycle_after) {
      link.stop();
      served = 1;
    }
    if (auto fit = fitting(progress); !fit) return tl::make_unexpected(fit.error());
    auto answer = link.call(request, deadline_s, quiet_s, progress, enough);
    if (!answer && answer.error().contender.empty() && answer.error().kind == LinkTrouble::Kind::lost) {
      *lost = true;
      if (options.launcher.empty()) answer = link.call(request, deadline_s, quiet_s, progress, enough);
    }
    if (!answer && answer.error().contender.empty() && answer.error().kind == LinkTrouble::Kind::timed_out)
      *lost = true;
    return answer;
  }

  // A launcher may start the worker on another machine each time: one whose device differs from the search's
  // is stopped. Does nothing for a worker that has been asked already.
  tl::expected<void, LinkTrouble> fitting(const Progress& progress = {}) {
    if (!expected || options.launcher.empty()) return {};
    if (auto opened = link.open(progress); !opened) return opened;
    if (link.pid() == asked) return {};
    const auto answer = link.call({{"request", "info"}}, kDeviceInfoSeconds, kDeviceInfoSeconds);
    if (!answer) return tl::make_unexpected(answer.error());
    DeviceInfo now;
    try {
      now = answer->get<DeviceInfo>();
    } catch (const nlohmann::json::exception& e) {
      return tl::make_unexpected(LinkTrouble{
          .kind = LinkTrouble::Kind::refused,
          .error = {ErrorKind::failed, "protocol",
                    fmt::format("the worker's device description is malformed: {}", said_shortly(e))}});
    }
    asked = link.pid();
    unlike.reset();
    if (now.same_kind(*expected)) return {};
    link.stop();
    unlike = now;
    LinkTrouble other{
        .kind = LinkTrouble::Kind::unavailable,
        .error = {
            ErrorKind::failed, "worker measure",
            fmt::format("the launcher started the worker on '{}', which is not the kind of device of this "
                        "search: their times cannot be compared. Let the launcher ask for one kind of "
                        "machine, for example with --constraint",
                        now.description)}};
    other.fault = HostFault::launcher_failed;
    return tl::make_unexpected(std::move(other));
  }

  // The libraries to skip after this failure; empty if they are not responsible.
  static std::vector<ContenderTrouble> leave_out(std::vector<std::pair<std::string, Compiled>>& contenders,
                                                 const LinkTrouble& trouble) {
    const std::string& culprit = trouble.contender;
    // A library may have left a thread or a corrupted heap that fails later: retry without any library.
    if (culprit.empty() && trouble.kind != LinkTrouble::Kind::lost) return {};
    std::vector<ContenderTrouble> troubles;
    std::erase_if(contenders, [&](const auto& contender) {
      const std::string& name = contender.second.variant.manifest.name;
      const bool out = contender.second.is_library() && (culprit.empty() || name == culprit);
      if (out)
        troubles.push_back({name, ContenderTrouble::Kind::left_out,
                            culprit.empty()
                                ? "its library was loaded when the worker was lost; the contender is skipped"
                                : "the worker was lost in a call of its library; the contender is skipped",
                            fmt::format("last activity: {}\n{}", trouble.last.text, trouble.error.message)});
      return out;
    });
    return troubles;
  }

  double quiet_seconds() const { return 2 * options.run_deadline_s + kSlackSeconds; }

  // Generous: each run has its own deadline; this one limits their sum.
  double deadline_of(const EvaluateRequest& r) const {
    std::size_t checks = r.holdout.size() + 10;
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::edge})
      checks += claimed_shapes(task, stage, r.variant.variant).size();
    checks += claimed_shapes(task, Stage::stress, r.variant.variant).size() * task.stress.size();
    const double sides = 1.0 + static_cast<double>(r.contenders.size());
    const double one = r.contenders.empty() ? r.sampling.screening_seconds : 4 * r.sampling.max_seconds;
    const double least = (r.sampling.min_samples + 2) * options.run_deadline_s;
    // A contender is prepared for its check and for its timed runs, and again after noise.
    const double prepared = 4.0 * static_cast<double>(std::ranges::count_if(
                                      r.contenders, [](const auto& c) { return c.second.is_library(); }));
    const double repeated = r.stop_after == Stage::confirm
                                ? kLongestSeconds + kDrawnSeconds + kDrawnKindsSeconds + kCheckBuildSeconds +
                                      kDrawnForBlocksSeconds + kLargeCheckSeconds
                                : 0.0;
    return kSlackSeconds + repeated + static_cast<double>(checks) * options.run_deadline_s +
           static_cast<double>(r.workloads.size()) * prepared * options.prepare_deadline_s +
           static_cast<double>(r.workloads.size()) * sides * (one + least);
  }

  ServiceOptions options;
  Task task;
  WorkerLink link;
  std::unique_ptr<SecondLook> second_look;
  int served = 0;
  std::optional<DeviceInfo> expected;  // the kind of device, if a launcher chooses it
  int asked = 0;                       // the process ID of the worker whose device was compared
  std::optional<DeviceInfo> info, unlike;
};

DeviceService::DeviceService(ServiceOptions options) : state_(std::make_unique<State>(std::move(options))) {}
DeviceService::~DeviceService() = default;

Expected<DeviceInfo> DeviceService::info(const Progress& progress) {
  if (state_->info) return *state_->info;
  bool lost = false;
  const auto answer =
      state_->call({{"request", "info"}}, kDeviceInfoSeconds, kDeviceInfoSeconds, progress, &lost);
  if (!answer) return tl::make_unexpected(answer.error().error);
  try {
    state_->info = answer->get<DeviceInfo>();
  } catch (const nlohmann::json::exception& e) {
    return failure("protocol",
                   fmt::format("the worker's device description is malformed: {}", said_shortly(e)));
  }
  return *state_->info;
}

const std::optional<DeviceInfo>& DeviceService::unlike() const {
  return state_->unlike;
}

Expected<void> DeviceService::open(const DeviceInfo& expected) {
  state_->expected = expected;
  if (auto fit = state_->fitting(); !fit) return tl::make_unexpected(fit.error().error);
  if (auto opened = state_->link.open(); !opened) return tl::make_unexpected(opened.error().error);
  return {};
}

// Errors that no output reveals; a best must be free of them.
void DeviceService::look_again(const EvaluateRequest& request, Evaluation& evaluation,
                               const std::function<void(const std::string&)>& progress) {
  if (!state_->second_look) return;
  SecondLook::Outcome outcome = state_->second_look->run(request.variant, request.workloads, progress);
  if (!outcome.note.empty()) evaluation.diagnostics += fmt::format("not sanitized: {}\n", outcome.note);
  if (!outcome.rejection) return;
  evaluation.verdict = Evaluation::Verdict::rejected;
  evaluation.stage = outcome.rejection->stage;
  evaluation.reason = outcome.rejection->reason;
  evaluation.diagnostics = outcome.rejection->diagnostics + evaluation.diagnostics;
  evaluation.fitness = 0.0;
}

Expected<Evaluation> DeviceService::evaluate(const EvaluateRequest& request, const Progress& progress) {
  if (request.stop_after == Stage::confirm) {
    state_->link.stop();  // start a new process
    if (state_->second_look) state_->second_look->prepare();
  }
  bool lost = false;
  EvaluateRequest asked = request;
  std::vector<ContenderTrouble> left_out;
  tl::expected<nlohmann::json, LinkTrouble> answer;
  while (true) {
    const nlohmann::json message = {{"request", "evaluate"}, {"evaluate", asked}};
    answer = state_->call(message, state_->deadline_of(asked), state_->quiet_seconds(), progress, &lost);
    if (answer) break;
    auto more = State::leave_out(asked.contenders, answer.error());
    if (more.empty()) break;
    std::ranges::move(more, std::back_inserter(left_out));
  }
  if (answer) {
    try {
      Evaluation evaluation = answer->get<Evaluation>();
      for (ContenderTrouble& trouble : left_out) evaluation.add(std::move(trouble));
      evaluation.worker_lost = lost;
      if (request.stop_after == Stage::confirm && evaluation.measured())
        look_again(request, evaluation, progress);
      return evaluation;
    } catch (const nlohmann::json::exception& e) {
      return failure("protocol", fmt::format("the worker's evaluation is malformed: {}", said_shortly(e)));
    }
  }
  const LinkTrouble& why = answer.error();
  const bool candidate = why.kind == LinkTrouble::Kind::timed_out || why.kind == LinkTrouble::Kind::lost;
  if (!candidate) return tl::make_unexpected(why.error);
  const bool late = why.kind == LinkTrouble::Kind::timed_out;
  const Stage stage = why.last.stage.value_or(Stage::smoke);
  const std::string what = fmt::format("last activity: {}\n{}\n",
                                       why.last.text.empty() ? "start" : why.last.text, why.error.message);
  Evaluation evaluation = late ? rejection(stage, "timed out", what) : host_rejection(stage, why.fault, what);
  for (ContenderTrouble& trouble : left_out) evaluation.add(std::move(trouble));
  evaluation.input_seed = request.seed;
  evaluation.compile_seconds = request.variant.compile_seconds;
  evaluation.worker_lost = true;
  evaluation.late = late;
  return evaluation;
}

Expected<GateReport> DeviceService::gate(const GateRequest& request, const Progress& progress) {
  bool lost = false;
  const nlohmann::json message = {{"request", "gate"}, {"gate", request}};
  const double runs = static_cast<double>(request.workloads.size()) * state_->options.run_deadline_s;
  const double warm_up = 18.0 * runs;
  // Beyond the limit of device time a duel goes on to the blocks that it needs, some dozens.
  double deadline = kSlackSeconds + 4 * request.options.max_device_seconds + warm_up + 200.0 * runs;
  for (const Compiled* side : {&request.challenger, &request.incumbent, &request.control})
    if (side->is_library())
      deadline += 4.0 * static_cast<double>(request.workloads.size()) * state_->options.prepare_deadline_s;
  const auto answer =
      state_->call(message, deadline, state_->quiet_seconds() + warm_up, progress, &lost, request.enough);
  if (answer) {
    try {
      GateReport report = answer->get<GateReport>();
      report.worker_lost = lost;
      return report;
    } catch (const nlohmann::json::exception& e) {
      return failure("protocol", fmt::format("the worker's gate report is malformed: {}", said_shortly(e)));
    }
  }
  const LinkTrouble& why = answer.error();
  if (why.kind != LinkTrouble::Kind::timed_out && why.kind != LinkTrouble::Kind::lost)
    return tl::make_unexpected(why.error);
  GateReport report;  // nothing is known; undecided never replaces the incumbent
  report.decision.verdict = Verdict::undecided;
  report.decision.reason = "the worker was lost";
  report.trouble.push_back(fmt::format("last activity: {}\n{}", why.last.text, why.error.message));
  report.challenger_seconds.resize(request.workloads.size());
  report.incumbent_seconds.resize(request.workloads.size());
  report.worker_lost = true;
  report.host_fault = why.fault;
  return report;
}

Expected<ProfilePartial> DeviceService::profile(const ProfileRequest& request, const Progress& progress) {
  const double deadline = kSlackSeconds + kProfileSeconds + kMostPasses * state_->options.run_deadline_s;
  const auto part = [&](const ProfileRequest& one) -> tl::expected<ProfilePartial, LinkTrouble> {
    bool lost = false;
    const nlohmann::json message = {{"request", "profile"}, {"profile", one}};
    const auto answer =
        state_->call(message, deadline, state_->quiet_seconds() + kProfileSeconds, progress, &lost);
    if (!answer) return tl::make_unexpected(answer.error());
    try {
      return answer->get<ProfilePartial>();
    } catch (const nlohmann::json::exception& e) {
      return tl::make_unexpected(
          LinkTrouble{LinkTrouble::Kind::refused,
                      {ErrorKind::failed, "protocol",
                       fmt::format("the worker's profile is malformed: {}", said_shortly(e))}});
    }
  };
  ProfileRequest one = request;
  one.part = ProfilePart::timing;
  auto timed = part(one);
  if (!timed &&
      (timed.error().kind == LinkTrouble::Kind::timed_out || timed.error().kind == LinkTrouble::Kind::lost)) {
    ProfilePartial failed;
    failed.rejection = rejection(Stage::profile, "the worker was lost while timing the variant",
                                 timed.error().error.message);
    return failed;
  }
  if (!timed) return tl::make_unexpected(timed.error().error);
  if (timed->rejection || !state_->options.target->instruments) return std::move(*timed);
  ProfilePartial whole = std::move(*timed);
  one.median_us = whole.profile.median_us;

  // Not a fault of the variant: continue with what is known.
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
  if (counted) whole.profile.replay = "each kernel launch repeated";
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
  if (state_->second_look) state_->second_look->interrupt();
}

}  // namespace cultivar
