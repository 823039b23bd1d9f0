// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/search_session.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/cli/interrupt.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/progress_line.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/config/duration.hpp"
#include "engine/export/bundle.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"

namespace cultivar {
namespace fs = std::filesystem;

Installation installation_of(const InstallationPaths& installation) {
  return {installation.root / "configs" / "tasks", installation.programs};
}

Runtime runtime_of(const InstallationPaths& installation) {
  Runtime runtime;
  runtime.programs = installation.programs;
  runtime.cache = installation.cache;
  runtime.installation = installation_of(installation);
  return runtime;
}

std::string where_it_runs(Target target, int devices) {
  if (target->on_host || devices > 0) return "on this or another machine";
  return fmt::format("on a machine with a {} (none was found here)", target->device);
}

int devices_here(Target target) {
  return target->device_count == nullptr ? 0 : target->device_count();
}

std::string twice_what_is_spent(const Summary& summary, bool models_too) {
  std::string more;
  for (const auto& [kind, use] : summary.budget) {
    const bool of_models = kind == "tokens" || kind == "usd";
    if (!use.limit || (use.used < *use.limit && !(models_too && of_models))) continue;
    const double twice = 2.0 * std::max(*use.limit, use.used);
    more += fmt::format(
        " --set budget.{}={}", kind,
        kind == "wall" || kind == "plateau" ? duration_text(std::ceil(twice)) : fmt::format("{:.6g}", twice));
  }
  return more;
}

void SessionOptions::add_to(Options& options) {
  options.flag(
      "--detach", detach,
      "run without a terminal, in the background, with the log RUN/search.log; see `attach`, `stop`");
  options.option("--log", log,
                 "print to this file instead; it is rotated at 8 MiB, and three old ones are kept");
  options.flag(
      "--dashboard", dashboard,
      "also show the search as a live page for a browser while it goes on (see `cultivar dashboard`)");
  options.flag("--verbose", verbose, "print a line for every individual");
  options.flag("--json", as_json, "print the final status as JSON on stdout, like `status --json`");
}

void SessionOptions::open_log() {
  if (!log.empty()) opened = std::make_shared<SearchLog>(fs::absolute(log));
}

std::vector<std::string> SessionOptions::again() const {
  std::vector<std::string> words;
  if (verbose) words.emplace_back("--verbose");
  if (dashboard) words.emplace_back("--dashboard");
  return words;
}

namespace {

// In a process of its own, which ends with this one: whatever a browser sends, the search goes on.
std::optional<ChildProcess> page_of(const fs::path& folder) {
  constexpr std::chrono::seconds kPatience{10};
  ProcessOptions options;
  options.command = {fs::read_symlink("/proc/self/exe").string(), "dashboard", folder.string(), "--expect",
                     "--json"};
  options.pipe_input = false;
  auto child = ChildProcess::spawn(options);
  if (!child) {
    notify("Warning: no dashboard: {}\n", child.error().message);
    return std::nullopt;
  }
  std::string said;
  for (const auto until = Clock::now() + kPatience;
       Clock::now() < until && said.find("\n}") == std::string::npos;) {
    pollfd ready{child->output(), POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    std::array<char, 1024> buffer{};
    const ssize_t count = ::read(child->output(), buffer.data(), buffer.size());
    if (count <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const auto facts = nlohmann::json::parse(said, nullptr, false);
  if (facts.is_discarded()) {
    notify("Warning: no dashboard: {}\n", plain_line(child->captured(), 300));
    return std::nullopt;
  }
  notify("Dashboard: {}\n", facts.value("url", ""));
  return std::move(*child);
}

}  // namespace

int search_session(const InstallationPaths& installation, const fs::path& folder, const Output& output,
                   const SessionOptions& options,
                   const std::function<Expected<Outcome>(const Runtime&, const SearchCallbacks&)>& search) {
  Runtime runtime = runtime_of(installation);
  runtime.checkpoints_wanted = &checkpoints_wanted();
  const std::optional<ChildProcess> page = options.dashboard ? page_of(folder) : std::nullopt;
  const Outcome outcome = [&] {
    const WhenInterrupted stopping([] {
      notify(
          "\nStopping: what is in flight ends or is given up, and a checkpoint is written. Ctrl-C again ends "
          "the program at once; the record is safe.\n");
    });
    ProgressLine line(options.verbose);
    SearchCallbacks callbacks = line.callbacks();
    if (options.opened)
      callbacks.progress = [log = options.opened, show = callbacks.progress](const Progress& progress) {
        show(progress);
        log->rotate_if_large();
      };
    return must(search(runtime, callbacks));
  }();

  const std::string place = as_typed(folder);
  const Record record = must(Record::open(folder));
  Summary summary = summary_of(record);
  if (outcome.stop == Outcome::Stop::failed) {  // not always recorded: the disk may be full
    summary.state = "failed";
    summary.stop_reason = outcome.reason;
  }
  output.facts(summary);
  output.line("");
  print_summary(summary, output);
  if (const auto best = record.best()) {
    const auto confirmed = record.confirmation(*best), searched = record.evaluation(*best);
    const bool fresh = confirmed && confirmed->measured();
    const bool beside = fresh && std::ranges::any_of(confirmed->workloads, [](const WorkloadResult& w) {
                          return !w.ratios.empty();
                        });
    if (const auto& shown = fresh ? confirmed : searched) {
      output.line(fmt::format("\n  {}:\n{}",
                              fresh ? "confirmed in a fresh process" +
                                          std::string(beside ? ", interleaved with the contenders" : "")
                                    : "measured during the search",
                              evaluation_table(*shown, "  ")));
      const Config config =
          recorded_config(record.facts().config_yaml, RunFolder(folder), {}, runtime.installation);
      for (const BeyondMemory& each : beyond_memory_in(record.facts().environment, config, *shown))
        output.line("  " + each.words());
    }
  }

  const std::string more = twice_what_is_spent(summary, outcome.stop == Outcome::Stop::models);
  switch (outcome.stop) {
    case Outcome::Stop::failed:
      notify("The search failed: {}\nThe record up to this point is intact in {}.\n", outcome.reason, place);
      return 1;
    case Outcome::Stop::turn:
    case Outcome::Stop::letters:
    case Outcome::Stop::interrupted:
      notify("Stopped with a checkpoint. To resume:\n  {} resume {}{}\n", called_as(), place, more);
      return 130;
    case Outcome::Stop::wall:
    case Outcome::Stop::evaluations:
    case Outcome::Stop::device:
    case Outcome::Stop::plateau:
    case Outcome::Stop::models:
    case Outcome::Stop::exhausted:
      break;
  }
  if (!record.best() && summary.measured > 0) {
    notify(
        "The search ended ({}) with {} measured and none confirmed in a fresh process with new inputs: "
        "{}.{}\n",
        outcome.reason, counted(summary.measured, "kernel"),
        summary.outstanding ? fmt::format("#{} waits for it, and a search that is resumed begins with it",
                                          summary.outstanding->id)
                            : fmt::format("`{} lineage {}` shows what failed", called_as(), place),
        more.empty() ? "" : fmt::format(" To resume:\n  {} resume {}{}", called_as(), place, more));
    return 1;
  }
  if (!record.best() && summary.evaluations == 0) {
    notify("The search ended ({}) before its first kernel was evaluated.{}\n", outcome.reason,
           more.empty() ? "" : fmt::format(" To resume:\n  {} resume {}{}", called_as(), place, more));
    return 1;
  }
  if (!record.best()) {
    notify(
        "The search ended ({}) without a kernel that passed every check. To see why the first one was "
        "rejected: {} show {} 1\n",
        outcome.reason, called_as(), place);
    return 1;
  }
  const Target target = target_named(record.facts().target);
  if (target->exporter == nullptr) {
    output.line(fmt::format("Next: {} show {} best, which shows everything known about the best kernel.",
                            called_as(), place));
    return 0;
  }
  const ExportReport exported = must(export_bundle({record, 0, folder / "best", runtime}));
  const std::string bundle = as_typed(exported.folder);
  output.line(fmt::format(
      "The best kernel is exported to {0}. To build, check and time it {4}:\n"
      "  cmake -S {0} -B {0}/build\n"
      "  cmake --build {0}/build\n"
      "  {0}/build/verify\n"
      "To see how it was found, and all that is known of it:\n"
      "  {2} lineage {1}\n"
      "  {2} show {1} best{3}",
      bundle, place, called_as(),
      more.empty() ? ""
                   : fmt::format("\nTo continue the search:\n  {} resume {}{}", called_as(), place, more),
      where_it_runs(target, devices_here(target))));
  return 0;
}

}  // namespace cultivar
