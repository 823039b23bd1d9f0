// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/sanitizing.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <shared_mutex>
#include <utility>

#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr double kSanitizerSeconds =
    240.0;  // for all small shapes under one tool, which slows kernels tenfold and more
constexpr double kSanitizerGoodbyeSeconds = 20.0;  // it writes its summary at the very end
constexpr std::size_t kMostFindings = 4000;
constexpr double kSlower = 20.0;
constexpr double kRunSlower =
    6.0;  // for one launch of a small shape, which takes almost no time without the tool
constexpr int kTries = 2;

fs::path new_log(const fs::path& cache, const std::string& tool) {
  static std::atomic<int> number{0};
  return cache / fmt::format("{}-{}-{}.log", tool, ::getpid(), number++);
}

// Removes and returns the number at the start of `text`; nullopt if there is none.
std::optional<int> number(std::string_view& text) {
  int value = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end == text.data() || *text.data() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return trouble == std::errc::result_out_of_range ? std::numeric_limits<int>::max() : value;
}

bool taken_off(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

// "ERROR SUMMARY: 12 errors", "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)".
std::optional<int> errors_of_summary(std::string_view words) {
  if (taken_off(words, "RACECHECK SUMMARY: ")) {
    if (!number(words) ||
        !(taken_off(words, " hazards displayed (") || taken_off(words, " hazard displayed (")))
      return std::nullopt;
  } else if (!taken_off(words, "ERROR SUMMARY: ")) {
    return std::nullopt;
  }
  const std::optional<int> errors = number(words);
  return words.starts_with(" error") ? errors : std::nullopt;
}

}  // namespace

fs::path find_sanitizer() {
  if (fs::path found = find_program("compute-sanitizer"); !found.empty()) return found;
  const fs::path usual = "/usr/local/cuda/bin/compute-sanitizer";
  std::error_code ignored;
  return fs::exists(usual, ignored) ? usual : fs::path();
}

SanitizerLog read_sanitizer_log(const std::string& text) {
  SanitizerLog log;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t begin = line.find_first_not_of("= \t");
    if (begin == line.npos) continue;
    const std::string_view words = line.substr(begin);
    if (const auto errors = line.front() == '=' ? errors_of_summary(words) : std::nullopt) {
      log.ended = true;
      log.errors += std::min(*errors, std::numeric_limits<int>::max() - log.errors);
      continue;
    }
    if (words.find("COMPUTE-SANITIZER") != words.npos || words.find("Host Frame") != words.npos) continue;
    const std::size_t room = kMostFindings - std::min(kMostFindings, log.findings.size());
    if (room > 0) log.findings.append(words.substr(0, room)) += '\n';
  }
  return log;
}

SanitizerOutcome examine(const std::string& tool, const std::vector<SanitizerForm>& forms,
                         const Compiled& variant, const Compiled* control) {
  using Kind = SanitizerLook::Kind;
  const auto asked = [&](const Compiled* kernel) {
    SanitizerLook look;
    for (const SanitizerForm& form : forms)
      if (look = form(kernel); look.kind != Kind::lost) break;
    return look;
  };
  const auto refused = [&](std::string reason, std::string diagnostics) {
    return SanitizerOutcome{rejection(Stage::confirm, std::move(reason), std::move(diagnostics)), ""};
  };
  SanitizerLook look;
  for (int i = 0; i < kTries; ++i) {
    look = asked(&variant);
    if (look.kind == Kind::clean) return {};
    if (look.kind == Kind::interrupted) return {std::nullopt, tool + ": " + look.reason};
    if (look.kind == Kind::found)
      return refused(look.reason,
                     fmt::format("compute-sanitizer --tool {}, on the small shapes of smoke and edge:\n{}",
                                 tool, look.findings));
  }
  const SanitizerLook own = asked(control);
  const std::string by = control ? "with " + control->variant.manifest.name : "without any kernel";
  if (own.kind == Kind::interrupted) return {std::nullopt, tool + ": " + own.reason};
  if (own.kind == Kind::failed || own.kind == Kind::lost)
    return {std::nullopt,
            fmt::format("{}: {}; the tool also fails {}: {}", tool, look.reason, by, own.reason)};
  SanitizerOutcome outcome = refused(
      fmt::format("the variant fails under {}: {}", tool, look.reason),
      fmt::format(
          "The variant passes without compute-sanitizer --tool {} but fails twice under it, on the small "
          "shapes of smoke and edge; {} the tool completes. The result of a kernel must not depend on tools: "
          "check for undefined order (races between threads or kernels, missing fences), uninitialized "
          "memory, and waits that do not end when threads are slower.\n{}",
          tool, by, look.findings));
  outcome.lost = look.kind == Kind::lost;
  return outcome;
}

SanitizerOutcome together(std::vector<SanitizerOutcome> outcomes) {
  SanitizerOutcome whole;
  const bool any_clean = std::ranges::any_of(
      outcomes, [](const SanitizerOutcome& one) { return !one.rejection && one.note.empty(); });
  for (SanitizerOutcome& one : outcomes) {
    if (one.rejection && one.lost && any_clean) {
      one.note = one.rejection->reason;
      one.rejection.reset();
    }
    if (one.rejection && !whole.rejection) whole.rejection = std::move(one.rejection);
    if (!one.note.empty()) whole.note += (whole.note.empty() ? "" : "; ") + one.note;
  }
  return whole;
}

Sanitizing::Sanitizing(const ServiceOptions& given) : run_deadline_s_(given.run_deadline_s) {
  const fs::path sanitizer = find_sanitizer();
  if (sanitizer.empty()) {
    missing_ = "compute-sanitizer was not found in PATH or /usr/local/cuda/bin";
    return;
  }
  const auto form = [&](const std::string& tool, const std::vector<std::string>& more) {
    const fs::path log = new_log(given.cache, tool);
    // Each buffer is then a separate allocation, so that memcheck knows where it ends.
    std::vector<std::string> words = {
        "env",        "CULTIVAR_SANITIZED=1", sanitizer.string(), "--tool", tool,
        "--log-file", log.string(),           "--print-limit",    "4",      "--show-backtrace",
        "no"};
    words.insert(words.end(), more.begin(), more.end());
    ServiceOptions options = given;
    options.launcher.insert(options.launcher.end(), words.begin(), words.end());
    options.run_deadline_s *= kRunSlower;
    return std::unique_ptr<Form>(new Form{tool, log, WorkerLink(options, "measure")});
  };
  tools_.emplace_back().push_back(form("memcheck", {"--report-api-errors", "no"}));
  // Racecheck's analysis of its findings has been seen to crash (CUDA 13.0, kernels loaded by the process
  // itself). The bare hazards are verbose but are reported then.
  auto& racecheck = tools_.emplace_back();
  racecheck.push_back(form("racecheck", {}));
  racecheck.push_back(form("racecheck", {"--racecheck-report", "hazard"}));
}

Sanitizing::~Sanitizing() {
  Sanitizing::interrupt();
  await_start();
}

void Sanitizing::await_start() {
  for (std::thread& thread : starting_) thread.join();
  starting_.clear();
}

void Sanitizing::prepare() {
  await_start();
  for (const auto& tool : tools_)
    starting_.emplace_back(
        [&form = *tool.front()] { (void)form.link.open(); });  // a failure appears in run()
}

SanitizerLook Sanitizing::look(Form& form, const Compiled* kernel, const std::vector<Workload>& workloads,
                               const Progress& progress) {
  using Kind = SanitizerLook::Kind;
  std::optional<LinkTrouble> trouble;
  std::optional<Evaluation> evaluation;
  if (kernel == nullptr) {
    if (auto opened = form.link.open(); !opened) trouble = opened.error();
  } else {
    EvaluateRequest request;
    request.variant = *kernel;
    request.workloads = workloads;
    request.stop_after = Stage::edge;
    request.small_shapes = true;
    const auto answer = form.link.call({{"request", "evaluate"}, {"evaluate", request}}, kSanitizerSeconds,
                                       kSlower * run_deadline_s_, [&](const std::string& at) {
                                         if (progress) progress(form.tool + ": " + at);
                                       });
    if (answer)
      evaluation = answer->get<Evaluation>();
    else
      trouble = answer.error();
  }
  form.link.stop(kSanitizerGoodbyeSeconds);
  const Expected<std::string> text = read_file(form.log);
  std::error_code ignored;
  fs::remove(form.log, ignored);
  const SanitizerLog log = read_sanitizer_log(text ? *text : std::string());
  if (trouble && trouble->kind == LinkTrouble::Kind::interrupted)
    return {Kind::interrupted, trouble->error.message, ""};
  if (log.errors > 0)
    return {Kind::found, fmt::format("{} found {} errors", form.tool, log.errors), log.findings};
  if (trouble) {
    const std::string& message = trouble->error.message;
    return {trouble->kind == LinkTrouble::Kind::timed_out ? Kind::failed : Kind::lost,
            message.substr(0, message.find('\n')), log.findings};
  }
  if (evaluation && !evaluation->measured())
    return {Kind::failed, fmt::format("at {}: {}", name_of(evaluation->stage), evaluation->reason),
            evaluation->diagnostics + log.findings};
  if (!log.ended) return {Kind::lost, "the tool wrote no summary", log.findings};
  return {};
}

SecondLook::Outcome Sanitizing::run(const Compiled& compiled, const std::vector<Workload>& workloads,
                                    const Progress& progress) {
  if (!missing_.empty()) return {std::nullopt, missing_};
  await_start();
  std::mutex telling;
  const Progress tell = [&](const std::string& text) {
    const std::lock_guard lock(telling);
    if (progress) progress(text);
  };
  // What fails beside the other tool is tried again alone.
  std::shared_mutex other_tool;
  std::vector<std::future<SanitizerOutcome>> outcomes;
  for (const auto& tool : tools_)
    outcomes.push_back(std::async(std::launch::async, [&] {
      std::vector<SanitizerForm> forms;
      for (const auto& form : tool)
        forms.push_back([&, first = true](const Compiled* kernel) mutable {
          const auto looked = [&] {
            return look(*form, kernel, kernel == &compiled ? workloads : workloads_of_control_, tell);
          };
          if (std::exchange(first, false)) {
            const std::shared_lock beside(other_tool);
            return looked();
          }
          const std::unique_lock alone(other_tool);
          return looked();
        });
      return examine(tool.front()->tool, forms, compiled, control_ ? &*control_ : nullptr);
    }));
  std::vector<SanitizerOutcome> ends;
  for (auto& each : outcomes) ends.push_back(each.get());
  SanitizerOutcome whole = together(std::move(ends));
  if (whole.rejection || !whole.note.empty()) return whole;
  control_ = compiled;
  workloads_of_control_ = workloads;
  return whole;
}

void Sanitizing::interrupt() {
  for (const auto& tool : tools_)
    for (const auto& form : tool) form->link.interrupt();
}

}  // namespace cultivar
