// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "evaluators/judge/specialisation_checks.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

constexpr double kGraceSeconds =
    15.0;  // the worker enforces the compile deadline; this is extra time for the worker itself
constexpr double kInfoSeconds = 30.0;

using Outcome = tl::expected<Binary, Evaluation>;

// Other assignments compile only after the first has succeeded, so name what is different in this one: ",
// with D=256 causal=1".
std::string unlike(const std::vector<std::string>& first, const std::vector<std::string>& own) {
  std::vector<std::string> differing;
  for (const std::string& macro : own)
    if (std::ranges::find(first, macro) == first.end()) differing.push_back(macro);
  return differing.empty() ? std::string() : fmt::format(", with {}", fmt::join(differing, " "));
}

}  // namespace

struct CompileService::State {
  explicit State(ServiceOptions given) : options(std::move(given)), task(load_task(options.task_folder)) {
    const int count = std::max(1, options.compile_workers);
    for (int i = 0; i < count; ++i) {
      links.push_back(std::make_unique<WorkerLink>(options, "compile"));
      free.push_back(links.back().get());
    }
  }

  WorkerLink* acquire() {
    std::unique_lock lock(mutex);
    available.wait(lock, [&] { return !free.empty(); });
    WorkerLink* link = free.back();
    free.pop_back();
    return link;
  }
  void release(WorkerLink* link) {
    {
      const std::lock_guard lock(mutex);
      free.push_back(link);
    }
    available.notify_one();
  }

  // Throws MissingError if the worker program or the compiler is missing.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double seconds) {
    WorkerLink* link = acquire();
    auto answer = link->call(request, seconds, seconds);
    // A worker that was killed from outside proves nothing about the candidate: retry once in a new worker.
    if (!answer && answer.error().kind == LinkTrouble::Kind::lost)
      answer = link->call(request, seconds, seconds);
    release(link);
    if (!answer && answer.error().error.kind == ErrorKind::missing)
      throw MissingError(answer.error().error.message);
    return answer;
  }

  // A build for checks: "check" or "overflow" (see Compiler), or an Error text.
  tl::expected<Binary, std::string> compile_for_checks(const char* kind, const nlohmann::json& variant,
                                                       const std::vector<std::string>& assignment) {
    const nlohmann::json request = {{"request", "compile"},
                                    {"build", kind},
                                    {"variant", variant},
                                    {"macros", assignment},
                                    {"deadline_s", options.compile_deadline_s}};
    const auto answer = call(request, 2 * options.compile_deadline_s + kGraceSeconds);
    if (!answer) return tl::make_unexpected(answer.error().error.message);
    try {
      return answer->at("binary").get<Binary>();
    } catch (const nlohmann::json::exception& e) {
      return tl::make_unexpected("the compile worker's reply is malformed: " + said_shortly(e));
    }
  }

  Outcome compile_one(const nlohmann::json& variant, const std::vector<std::string>& assignment) {
    const nlohmann::json request = {{"request", "compile"},
                                    {"variant", variant},
                                    {"macros", assignment},
                                    {"deadline_s", options.compile_deadline_s}};
    const auto answer = call(request, options.compile_deadline_s + kGraceSeconds);
    if (!answer) {
      const LinkTrouble& why = answer.error();
      if (why.kind == LinkTrouble::Kind::interrupted)
        return tl::make_unexpected(rejection(Stage::compile, "interrupted", ""));
      const bool late = why.kind == LinkTrouble::Kind::timed_out;
      Evaluation e = late ? rejection(Stage::compile, "the compiler timed out", why.error.message)
                          : host_rejection(Stage::compile, why.fault, why.error.message);
      e.worker_lost = why.kind != LinkTrouble::Kind::refused;
      e.late = late;
      return tl::make_unexpected(std::move(e));
    }
    try {
      if (answer->contains("binary")) return answer->at("binary").get<Binary>();
      const auto f = answer->at("failure").get<CompileFailure>();
      Evaluation e = rejection(f.stage, f.reason, f.diagnostics);
      e.late = f.late;
      e.host_fault = f.host_fault;
      return tl::make_unexpected(std::move(e));
    } catch (const nlohmann::json::exception& e) {
      return tl::make_unexpected(
          rejection(Stage::compile, "the compile worker's reply is malformed", said_shortly(e)));
    }
  }

  tl::expected<Compiled, Evaluation> compile(const Variant& variant,
                                             const std::vector<std::vector<std::string>>& assignments,
                                             bool with_check_builds) {
    if (const auto fits = check_target(variant, options.target); !fits)
      return tl::make_unexpected(rejection(Stage::lint, fits.error().message, fits.error().text()));
    const Clock::time_point start = Clock::now();
    const nlohmann::json source = variant;
    std::vector<Outcome> outcomes(assignments.size());
    const auto rejected = [&](Evaluation e) {
      e.compile_seconds = seconds_since(start);
      return tl::make_unexpected(std::move(e));
    };
    // Compile the first assignment alone: if it fails, the others are not tried.
    if (!assignments.empty()) outcomes[0] = compile_one(source, assignments[0]);
    if (!assignments.empty() && !outcomes[0]) return rejected(outcomes[0].error());
    std::atomic<std::size_t> next = 1;
    // The timed workloads' assignments come first.
    std::vector<tl::expected<Binary, std::string>> checked(
        with_check_builds ? std::min(assignments.size(), kMostCheckBuilds) : 0);
    tl::expected<Binary, std::string> overflow = tl::make_unexpected(std::string());
    const std::size_t all = assignments.size() + checked.size() + (checked.empty() ? 0 : 1);
    const auto work = [&] {
      for (std::size_t i = next++; i < all; i = next++)
        if (i < assignments.size())
          outcomes[i] = compile_one(source, assignments[i]);
        else if (const std::size_t c = i - assignments.size(); c < checked.size())
          checked[c] = compile_for_checks("check", source, assignments[c]);
        else
          overflow = compile_for_checks("overflow", source, assignments[0]);
    };
    std::vector<std::future<void>> others;
    const std::size_t rest = assignments.empty() ? 0 : all - 1;
    for (std::size_t i = 1; i < std::min(rest, links.size()); ++i)
      others.push_back(std::async(std::launch::async, work));
    work();
    for (std::future<void>& other : others) other.get();

    Compiled compiled{variant, {}, 0.0};
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i]) {
        Evaluation failed = outcomes[i].error();
        failed.reason += unlike(assignments[0], assignments[i]);
        return rejected(std::move(failed));
      }
      compiled.binaries.push_back(std::move(*outcomes[i]));
    }
    for (tl::expected<Binary, std::string>& build : checked)
      if (build)
        compiled.check_builds.push_back(std::move(*build));
      else
        compiled.no_check_build = build.error();
    if (overflow) compiled.overflow_builds.push_back(std::move(*overflow));
    if (with_check_builds && checked.size() < assignments.size() && compiled.no_check_build.empty())
      compiled.no_check_build = fmt::format("{} of {} specialisations have no check build",
                                            assignments.size() - checked.size(), assignments.size());
    compiled.compile_seconds = seconds_since(start);
    return compiled;
  }

  ServiceOptions options;
  Task task;
  std::vector<std::unique_ptr<WorkerLink>> links;
  std::mutex mutex;
  std::condition_variable available;
  std::vector<WorkerLink*> free;
  std::mutex info_mutex;
  std::map<std::string, CompilerInfo> info;  // by language
};

CompileService::CompileService(ServiceOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
CompileService::~CompileService() = default;

tl::expected<Compiled, Evaluation> CompileService::compile(const Variant& variant,
                                                           const std::vector<Workload>& workloads,
                                                           Breadth breadth) {
  for (const Workload& w : workloads)
    if (!claims(variant, state_->task, w))
      return tl::make_unexpected(rejection(
          Stage::lint, "the variant does not claim " + w.name,
          fmt::format("`requires: \"{}\"` does not hold for {}. A variant must claim every workload of the "
                      "search: widen `requires`.\n",
                      variant.manifest.requires_ ? variant.manifest.requires_->text() : "", w.name)));
  std::vector<std::vector<std::string>> assignments =
      macro_assignments(state_->task, variant, workloads, breadth);
  std::vector<Workload> drawn;
  if (breadth == Breadth::everything || breadth == Breadth::confirming)
    drawn = draw_unknown_assignments(state_->task, variant, assignments, secret_seed());
  for (const Workload& w : drawn) assignments.push_back(macros(variant, state_->task, w));
  auto compiled = state_->compile(variant, assignments, breadth == Breadth::confirming);
  if (compiled) compiled->drawn = std::move(drawn);
  const Architectures* const known = state_->options.target->architectures;
  if (!compiled || known == nullptr) return compiled;
  // Reject what no card could launch, without waiting for a card.
  const std::string architecture =
      state_->options.architecture.empty() ? known->usual : state_->options.architecture;
  for (const Workload& w : workloads)
    if (const Binary* binary = compiled->binary(macros(variant, state_->task, w)))
      if (const auto legal = known->check(binary->path, variant, state_->task, w, architecture); !legal)
        return tl::make_unexpected(rejection(Stage::screen, "no card can launch the variant on " + w.name,
                                             legal.error().message + "\n"));
  return compiled;
}

CompilerInfo CompileService::compiler_info(Language language) {
  const std::string name = name_of(language != nullptr ? language : usual_language(state_->options.target));
  const std::lock_guard lock(state_->info_mutex);
  if (const auto known = state_->info.find(name); known != state_->info.end()) return known->second;
  const auto answer = state_->call({{"request", "info"}, {"language", name}}, kInfoSeconds);
  if (!answer) throw MissingError(answer.error().error.message);
  const auto said = [&](const char* what) { return answer->at(what).get<std::string>(); };
  return state_->info[name] = CompilerInfo{said("identity"), said("isolation"), said("weakness")};
}

void CompileService::interrupt() {
  for (const auto& link : state_->links) link->interrupt();
}

}  // namespace cultivar
