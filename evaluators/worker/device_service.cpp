#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "evaluators/check/contender_side.hpp"
#include "evaluators/check/stages.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

constexpr double kInfoSeconds = 300.0;  // ceilings are measured when they are new
constexpr double kSlackSeconds = 60.0;  // oracle, inputs, opening sessions

using Progress = std::function<void(const std::string&)>;

// "stress B1_H2 needle" -> stress
Stage stage_of(const std::string& progress, Stage otherwise) {
  const auto stage = stage_named(progress.substr(0, progress.find_first_of(" :")));
  return stage.value_or(otherwise);
}

}  // namespace

struct DeviceService::State {
  explicit State(ServiceOptions given)
      : options(std::move(given)), task(load_task(options.task_folder)), link(options, "measure") {}

  // Twice at most: a worker that was killed from outside says nothing about the candidate. But one that did
  // not come back from a contender's library says something of that.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double deadline_s,
                                                 double quiet_s, const Progress& progress, bool* lost) {
    if (served++ >= options.recycle_after) {
      link.stop();
      served = 1;
    }
    auto answer = link.call(request, deadline_s, quiet_s, progress);
    if (!answer && culprit(answer.error()).empty() && answer.error().kind == LinkTrouble::Kind::lost) {
      *lost = true;
      answer = link.call(request, deadline_s, quiet_s, progress);
    }
    if (!answer && culprit(answer.error()).empty() && answer.error().kind == LinkTrouble::Kind::timed_out)
      *lost = true;
    return answer;
  }

  // The contender's library that has cost the worker; empty: none has.
  static std::string culprit(const LinkTrouble& trouble) {
    using Kind = LinkTrouble::Kind;
    if (trouble.kind == Kind::lost || trouble.kind == Kind::timed_out)
      return contender_in_progress(trouble.last_progress);
    if (trouble.kind == Kind::refused) return contender_in_progress(trouble.error.stage + ": ");
    return {};
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
    return failure("protocol",
                   fmt::format("the worker described its device in a way that makes no sense: {}", e.what()));
  }
  return *state_->info;
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
    const std::string culprit = answer ? std::string() : State::culprit(answer.error());
    if (culprit.empty() || std::erase_if(asked.contenders, [&](const auto& contender) {
                             return contender.second.variant.manifest.name == culprit;
                           }) == 0)
      break;
    left_out += fmt::format("contender {}: it has cost the worker, and is left out\nwhile at: {}\n{}\n",
                            culprit, answer.error().last_progress, answer.error().error.message);
  }
  if (answer) {
    try {
      Evaluation evaluation = answer->get<Evaluation>();
      evaluation.diagnostics = left_out + evaluation.diagnostics;
      evaluation.worker_lost = lost;
      return evaluation;
    } catch (const nlohmann::json::exception& e) {
      return failure("protocol", fmt::format("the worker's evaluation makes no sense: {}", e.what()));
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
      return failure("protocol", fmt::format("the worker's report of the gate makes no sense: {}", e.what()));
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

void DeviceService::interrupt() {
  state_->link.interrupt();
}

}  // namespace cultivar
