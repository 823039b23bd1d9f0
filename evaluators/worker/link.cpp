// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/link.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include <nlohmann/json.hpp>

#include "evaluators/system/frame.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// This process's environment, in which malloc asks for huge pages: a worker handles hundreds of megabytes,
// and a process with small pages takes ten times longer to start another one
// (references/cpp/reference_process.hpp).
std::vector<std::string> environment_of_worker() {
  constexpr std::string_view kTunables = "GLIBC_TUNABLES=";
  std::vector<std::string> all;
  bool chosen = false;  // by the user
  for (char** variable = environ; *variable != nullptr; ++variable) {
    all.emplace_back(*variable);
    chosen = chosen || all.back().starts_with(kTunables);
  }
  if (!chosen) all.push_back(std::string(kTunables) + "glibc.malloc.hugetlb=1");
  return all;
}

constexpr double kWriteSeconds = 30.0;
constexpr double kGoodbyeSeconds = 1.0;
constexpr double kLauncherSeconds =
    5.0;  // for a launcher that is asked to end; srun, if killed, leaves its job running

}  // namespace

fs::path program_folder() {
  std::error_code trouble;
  return fs::read_symlink("/proc/self/exe", trouble).parent_path();
}

struct WorkerLink::Conversation {
  explicit Conversation(ChildProcess started)
      : process(std::move(started)), frames(process.output(), process.input()) {}
  ChildProcess process;
  FrameStream frames;
};

WorkerLink::WorkerLink(ServiceOptions options, std::string role)
    : options_(std::move(options)), role_(std::move(role)), program_(worker_program(options_.target)) {
  if (options_.programs.empty()) options_.programs = program_folder();
}

WorkerLink::~WorkerLink() {
  stop();
}

void WorkerLink::stop(double goodbye_s) {
  std::unique_ptr<Conversation> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = std::move(conversation_);
  }
  if (!ending) return;
  ending->process.close_input();
  ending->process.wait_or_kill(deadline_in(goodbye_s));
}

void WorkerLink::interrupt() {
  interrupted_ = true;
  const std::lock_guard lock(mutex_);
  if (conversation_) conversation_->process.kill();
}

int WorkerLink::pid() const {
  const std::lock_guard lock(mutex_);
  return conversation_ ? conversation_->process.pid() : 0;
}

const std::vector<std::string>& WorkerLink::launcher() const {
  return role_ == "compile" ? options_.compile_launcher : options_.launcher;
}

// Kernels run in processes of their own and cannot send a signal to the worker. A launcher reports a signal
// as an exit code, as shells do.
HostFault WorkerLink::fault_of(const ExitStatus& status) const {
  const bool by_code = !launcher().empty() && status.signal == 0 && status.code > 128;
  const int signal = by_code ? status.code - 128 : status.signal;
  if (signal == SIGKILL && out_of_memory_kills() > memory_kills_before_) return HostFault::out_of_memory;
  if (sent_from_outside(signal) || signal == SIGXCPU) return HostFault::killed;
  return HostFault::worker_lost;
}

// Ends the process and adds its last output to the message.
LinkTrouble WorkerLink::trouble(LinkTrouble::Kind kind, const std::string& what) {
  std::string message = fmt::format("{} {}: {}", program_, role_, what);
  HostFault fault = HostFault::worker_lost;
  std::unique_ptr<Conversation> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = std::move(conversation_);
  }
  if (ending) {
    if (kind != LinkTrouble::Kind::timed_out) ending->process.wait_or_kill(deadline_in(kGoodbyeSeconds));
    ending->process.kill();
    const ExitStatus* status = ending->process.wait(deadline_in(kGoodbyeSeconds));
    if (status != nullptr && kind != LinkTrouble::Kind::timed_out) {
      fault = fault_of(*status);
      message += fmt::format(" (the worker {}{})", status->describe(),
                             fault == HostFault::out_of_memory
                                 ? fmt::format(", by the system at {}", memory_limit_in_words())
                             : fault == HostFault::killed ? ", from outside"
                                                          : "");
    }
    if (const std::string said = ending->process.captured(); !said.empty())
      message += "\nits output: " + said;
  }
  if (interrupted_)
    return {LinkTrouble::Kind::interrupted, {ErrorKind::interrupted, "", "the work was interrupted"}};
  LinkTrouble made{kind, {ErrorKind::failed, fmt::format("worker {}", role_), message}};
  made.fault = fault;
  return made;
}

tl::expected<void, LinkTrouble> WorkerLink::launch() {
  using Kind = LinkTrouble::Kind;
  ProcessOptions process;
  const fs::path program = options_.programs / program_;
  process.command = launcher();
  for (const std::string& argument : {program.string(), role_}) process.command.push_back(argument);
  // Beside a device of its own the oracle may use all cores: none of them affects times measured there.
  const int cores = options_.target->on_host ? options_.cores : 0;
  if (role_ == "measure")
    for (const std::string& argument : {std::string("--device"), std::to_string(options_.device),
                                        std::string("--cores"), std::to_string(cores)})
      process.command.push_back(argument);
  std::error_code ignored;
  if (launcher().empty() && !fs::exists(program, ignored)) {
    LinkTrouble missing = trouble(
        Kind::unavailable, fmt::format("{} does not exist; build it or give its path", program.string()));
    if (missing.kind == Kind::unavailable) missing.error.kind = ErrorKind::missing;
    return tl::make_unexpected(std::move(missing));
  }
  // A cell that is being started when its worker dies is not yet set to die with it and would keep its
  // memory.
  process.guarded = true;
  if (!launcher().empty()) process.goodbye_s = kLauncherSeconds;
  process.environment = environment_of_worker();
  memory_kills_before_ = out_of_memory_kills();
  // Whatever ends a launcher before the worker speaks, the launcher has not done its work.
  const auto failed = [this](const std::string& what) {
    LinkTrouble why = trouble(Kind::unavailable, what);
    if (!launcher().empty()) why.fault = HostFault::launcher_failed;
    return tl::make_unexpected(std::move(why));
  };
  Expected<ChildProcess> child = ChildProcess::spawn(process);
  if (!child)
    return failed(fmt::format("cannot {}{}", child.error().text(),
                              launcher().empty() ? "" : " (see evaluation.launcher)"));
  {
    const std::lock_guard lock(mutex_);
    conversation_ = std::make_unique<Conversation>(std::move(*child));
    if (interrupted_) conversation_->process.kill();
  }
  const double patience = launcher().empty() ? options_.start_deadline_s : options_.queue_deadline_s;
  const auto greeting = conversation_->frames.read(deadline_in(patience));
  if (!greeting)
    return failed(fmt::format("started as `{}`, the worker sent no hello: {}", shell_words(process.command),
                              greeting.error().message));
  if (const auto known = check_hello(*greeting, program_); !known) return failed(known.error().message);
  return {};
}

tl::expected<void, LinkTrouble> WorkerLink::start(const Progress& progress) {
  using Kind = LinkTrouble::Kind;
  if (conversation_) {
    if (conversation_->process.poll() == nullptr) return {};
    stop();  // the worker died while idle
  }
  if (auto launched = launch(); !launched) return launched;
  std::error_code ignored;
  const Json configure = {{"request", "configure"},
                          {"protocol", protocol_version},
                          {"task_folder", fs::absolute(options_.task_folder, ignored).string()},
                          {"cache", fs::absolute(options_.cache, ignored).string()},
                          {"run_deadline_s", options_.run_deadline_s},
                          {"python", options_.python},
                          {"prepare_deadline_s", options_.prepare_deadline_s},
                          {"architecture", options_.architecture}};
  auto configured = exchange(configure, options_.start_deadline_s, options_.start_deadline_s, progress);
  if (configured) return {};
  const bool timed_out = configured.error().kind == Kind::timed_out;
  // At this point no candidate can be responsible.
  if (configured.error().kind != Kind::interrupted) configured.error().kind = Kind::unavailable;
  LinkTrouble why = configured.error();
  if (role_ == "measure" && timed_out && !why.last.text.empty())
    why.error.message = fmt::format(
        "the task was not ready within {:g} s. Last step: {}. Look there for a loop that does not end, or "
        "that is too slow for the shapes in `checks` of task.yaml, and correct it\n{}",
        options_.start_deadline_s, why.last.text, why.error.message);
  else if (!why.last.text.empty())
    why.error.message += "\nlast progress: " + why.last.text;
  stop();
  return tl::make_unexpected(why);
}

tl::expected<Json, LinkTrouble> WorkerLink::exchange(const Json& request, double deadline_s, double quiet_s,
                                                     const Progress& progress, const Enough& enough) {
  using Kind = LinkTrouble::Kind;
  const Clock::time_point deadline = deadline_in(deadline_s);
  if (const auto sent = conversation_->frames.write(request, deadline_in(kWriteSeconds)); !sent)
    return tl::make_unexpected(trouble(Kind::lost, sent.error().message));
  Activity last;
  const auto ended = [&](LinkTrouble t) {
    if (t.kind == Kind::lost || t.kind == Kind::timed_out) t.contender = last.contender;
    t.last = last;
    return tl::make_unexpected(std::move(t));
  };
  bool told = false;
  while (true) {
    auto message = conversation_->frames.read(std::min(deadline, deadline_in(quiet_s)));
    if (!message && message.error().kind == FrameTrouble::Kind::timed_out) {
      const bool silent = Clock::now() < deadline;
      return ended(trouble(Kind::timed_out, silent ? fmt::format("no message for {:g} s", quiet_s)
                                                   : fmt::format("timed out after {:g} s", deadline_s)));
    }
    if (!message) return ended(trouble(Kind::lost, message.error().message));
    if (message->contains("progress")) {
      last = (*message)["progress"].get<Activity>();
      if (progress) progress(last.text);
      // If the worker cannot be told, the next read finds out why.
      if (enough && *enough && !std::exchange(told, true))
        (void)conversation_->frames.write({{"request", "enough"}}, deadline_in(kWriteSeconds));
      continue;
    }
    if (message->value("last", false)) stop();
    if (message->contains("answer")) return std::move((*message)["answer"]);
    if (!message->contains("trouble"))
      return ended(trouble(Kind::lost, "the worker sent a frame that is not a reply"));
    return ended({.kind = Kind::refused,
                  .error = (*message)["trouble"].get<Error>(),
                  .contender = message->value("contender", "")});
  }
}

tl::expected<void, LinkTrouble> WorkerLink::open(const Progress& progress) {
  if (interrupted_) return tl::make_unexpected(trouble(LinkTrouble::Kind::interrupted, "interrupted"));
  try {
    return start(progress);
  } catch (const Json::exception& e) {
    return tl::make_unexpected(
        trouble(LinkTrouble::Kind::unavailable, fmt::format("malformed frame: {}", said_shortly(e))));
  }
}

tl::expected<void, LinkTrouble> WorkerLink::greet() {
  try {
    auto launched = launch();
    stop();
    return launched;
  } catch (const Json::exception& e) {
    return tl::make_unexpected(
        trouble(LinkTrouble::Kind::unavailable, fmt::format("malformed hello: {}", said_shortly(e))));
  }
}

tl::expected<Json, LinkTrouble> WorkerLink::call(const Json& request, double deadline_s, double quiet_s,
                                                 const Progress& progress, const Enough& enough) {
  if (auto opened = open(progress); !opened) return tl::make_unexpected(opened.error());
  try {
    return exchange(request, deadline_s, quiet_s, progress, enough);
  } catch (const Json::exception& e) {
    return tl::make_unexpected(
        trouble(LinkTrouble::Kind::lost, fmt::format("malformed frame: {}", said_shortly(e))));
  }
}

}  // namespace cultivar
