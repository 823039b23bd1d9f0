#include "evaluators/worker/sanitizing.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <utility>

#include "evaluators/targets/binary_cache.hpp"
#include "evaluators/worker/process.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds =
    240.0;  // for all small shapes under one tool, which slows kernels tenfold and more
constexpr double kGoodbyeSeconds = 20.0;  // it writes its summary at the very end
constexpr std::size_t kMostFindings = 4000;
constexpr double kSlower = 20.0;

fs::path new_log(const fs::path& cache, const std::string& tool) {
  static std::atomic<int> number{0};
  return cache / fmt::format("{}-{}-{}.log", tool, ::getpid(), number++);
}

}  // namespace

fs::path find_sanitizer() {
  if (fs::path found = find_program("compute-sanitizer"); !found.empty()) return found;
  const fs::path usual = "/usr/local/cuda/bin/compute-sanitizer";
  std::error_code ignored;
  return fs::exists(usual, ignored) ? usual : fs::path();
}

SanitizerLog read_sanitizer_log(const std::string& text) {
  static const std::regex summary(
      R"(^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error))");
  SanitizerLog log;
  std::istringstream lines(text);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, found, summary)) {
      log.ended = true;
      log.errors += std::stoi(found[1].matched ? found[1] : found[2]);
      continue;
    }
    const std::size_t words = line.find_first_not_of("= \t");
    if (words == line.npos || line.find("COMPUTE-SANITIZER") != line.npos ||
        line.find("Host Frame") != line.npos)
      continue;
    if (log.findings.size() < kMostFindings) log.findings += line.substr(words) + "\n";
  }
  return log;
}

Sanitizing::Sanitizing(const ServiceOptions& given) : run_deadline_s_(given.run_deadline_s) {
  const fs::path sanitizer = find_sanitizer();
  if (sanitizer.empty()) {
    missing_ = "compute-sanitizer was not found in PATH or /usr/local/cuda/bin";
    return;
  }
  const auto add = [&](const std::string& name, const std::vector<std::string>& more, bool after_a_loss) {
    const fs::path log = new_log(given.cache, name);
    // Each buffer is an allocation of its own then, so that memcheck knows where it ends.
    std::vector<std::string> words = {
        "env",        "CULTIVAR_SANITIZED=1", sanitizer.string(), "--tool", name,
        "--log-file", log.string(),           "--print-limit",    "4",      "--show-backtrace",
        "no"};
    words.insert(words.end(), more.begin(), more.end());
    ServiceOptions options = given;
    options.launcher.insert(options.launcher.end(), words.begin(), words.end());
    tools_.emplace_back(new Tool{name, log, after_a_loss, WorkerLink(options, "measure")});
  };
  add("memcheck", {"--report-api-errors", "no"}, false);
  add("racecheck", {}, false);
  // Racecheck's own analysis of what it has found was seen to crash (CUDA 13.0, a kernel of one's own
  // loading); the bare hazards are more than anybody wants to read, but they are told.
  add("racecheck", {"--racecheck-report", "hazard"}, true);
}

Sanitizing::Outcome Sanitizing::run(const Compiled& compiled, const WorkerLink::Progress& progress) {
  if (!missing_.empty()) return {std::nullopt, missing_};
  Outcome outcome;
  std::string why;  // nothing is known of the tool before
  bool lost = false;
  const auto note = [&] {
    if (!why.empty()) outcome.note += (outcome.note.empty() ? "" : "; ") + std::exchange(why, {});
  };
  for (const auto& tool : tools_) {
    if (tool->after_a_loss && !lost) continue;
    if (!tool->after_a_loss) note();
    why.clear();
    EvaluateRequest request;
    request.variant = compiled;
    request.stop_after = Stage::edge;
    request.small_shapes = true;
    const auto answer = tool->link.call({{"request", "evaluate"}, {"evaluate", protocol::from(request)}},
                                        kSeconds, kSlower * run_deadline_s_, [&](const std::string& at) {
                                          if (progress) progress(tool->name + ": " + at);
                                        });
    lost = !answer && answer.error().kind == LinkTrouble::Kind::lost;
    tool->link.stop(kGoodbyeSeconds);
    const Expected<std::string> text = read_file(tool->log);
    std::error_code ignored;
    fs::remove(tool->log, ignored);
    const SanitizerLog log = read_sanitizer_log(text ? *text : std::string());
    if (log.errors > 0) {
      outcome.rejection =
          rejection(Stage::confirm, fmt::format("{} found {} errors", tool->name, log.errors),
                    fmt::format("compute-sanitizer --tool {}, on the small shapes of smoke and edge:\n{}",
                                tool->name, log.findings));
      return outcome;
    }
    if (!answer)
      why = answer.error().error.message;
    else if (!log.ended)
      why = "it left no summary";
    else if (const auto evaluation = answer->get<Evaluation>(); !evaluation.measured())
      why =
          fmt::format("the variant failed under it, at {}: {}", name_of(evaluation.stage), evaluation.reason);
    if (!why.empty()) why = fmt::format("{}: {}", tool->name, why.substr(0, why.find('\n')));
  }
  note();
  return outcome;
}

void Sanitizing::interrupt() {
  for (const auto& tool : tools_) tool->link.interrupt();
}

}  // namespace cultivar
