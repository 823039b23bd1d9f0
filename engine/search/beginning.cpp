// SPDX-License-Identifier: Apache-2.0
#include "engine/search/beginning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "engine/config/duration.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json environment_of(Evaluator& evaluator, const std::vector<DeviceInfo>& devices) {
  json list = json::array();
  for (const DeviceInfo& d : devices)
    list.push_back({{"description", d.description},
                    {"model", d.model},
                    {"isolation", d.isolation},
                    {"facts", json(d.facts)},
                    {"ceilings", ceilings_json(d.ceilings)}});
  return {{"compiler", evaluator.compiler_identity()}, {"devices", list}, {"left_out", evaluator.left_out()}};
}

}  // namespace

NewRun::~NewRun() {
  std::error_code none;
  if (kept_) return;
  if (!fresh_) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(folder_.database().string() + suffix, none);
    fs::remove(folder_.witness(), none);
    return;
  }
  if (!fs::exists(folder_.log(), none)) {
    fs::remove_all(folder_.path(), none);
    return;
  }
  std::vector<fs::path> others;  // the log tells why no search began
  for (const auto& entry : fs::directory_iterator(folder_.path(), none))
    if (!entry.path().filename().string().starts_with(folder_.log().filename().string()))
      others.push_back(entry.path());
  for (const fs::path& other : others) fs::remove_all(other, none);
}

FirstWorkers::FirstWorkers(RecordWriter& writer, const Config& config, const SearchCallbacks& callbacks,
                           const std::atomic<bool>& stop, bool nothing_new)
    : writer_(writer),
      callbacks_(callbacks),
      stop_(stop),
      before_(summary_of(writer.record())),
      stays_finished_(nothing_new && before_.state == "finished"),
      next_event_s_(config.evaluation.launcher.empty() ? 5.0 : 0.0) {}  // local workers take seconds

Expected<std::vector<DeviceInfo>> FirstWorkers::ask(Evaluator& evaluator) {
  evaluator.while_starting([this](const std::string& what) { return while_starting(what); });
  auto devices = evaluator.devices();
  evaluator.while_starting({});
  if (!devices) never_began(devices.error());
  return devices;
}

bool FirstWorkers::while_starting(const std::string& what) {
  constexpr double kEventEvery = 30.0, kHeartbeatEvery = 5.0;
  waited_ = true;
  const double now = seconds_since(start_);
  if (now >= next_event_s_ && callbacks_.event) {
    callbacks_.event({now, "worker", what, 0});
    next_event_s_ = now + kEventEvery;
  }
  if (now >= next_heartbeat_s_) {
    const Pause pause{unix_now() - now, 0.0, what};
    (void)writer_.step(before_.elapsed_s, [&](Step& step) {  // on a full disk, the first real step tells
      step.set("momentary", to_body({before_.challengers, pause, {}}));
    });
    next_heartbeat_s_ = now + kHeartbeatEvery;
  }
  return !stop_;
}

void FirstWorkers::never_began(const Error& error) {
  const bool interrupted = error.kind == ErrorKind::interrupted;
  const std::string reason = stays_finished_ ? before_.stop_reason
                             : interrupted   ? "interrupted while it waited for its first worker"
                                             : "it did not begin: " + error.text();
  const std::string state = stays_finished_ ? before_.state : interrupted ? "stopped" : "failed";
  if (!writer_.step(before_.elapsed_s, [&](Step& step) {
        step.set("state", state);
        step.set("stop_reason", reason);
        step.event("stop", 0, stays_finished_ ? "it did not begin: " + error.text() : reason);
      }))
    writer_.end_unrecorded(reason);
}

Expected<Found> found_by(FirstWorkers& workers, Evaluator& evaluator) try {
  auto devices = workers.ask(evaluator);
  if (!devices) return tl::make_unexpected(devices.error());
  return Found{*devices, environment_of(evaluator, *devices)};
} catch (const MissingError& e) {
  const Error missing{ErrorKind::missing, "", e.what()};
  workers.never_began(missing);
  return tl::make_unexpected(missing);
}

namespace {

// Sections, and keys of `evaluation`: none of them changes what was decided, and a replay does not read them,
// except the gate's, whose changes are recorded.
constexpr std::array<std::string_view, 5> kSections{"budget", "checkpoint", "gate", "notify", "metrics"};
constexpr std::array<std::string_view, 4> kThatChangeTimes{"launcher", "devices", "depth",
                                                           "workers_per_device"};
constexpr std::array<std::string_view, 4> kOthers{"compile_workers", "patience", "python",
                                                  "prepare_deadline"};

std::string keys_of_evaluation() {
  return fmt::format("{}, {}", fmt::join(kThatChangeTimes, ", "), fmt::join(kOthers, ", "));
}

// "launcher" of "evaluation.launcher.measure=[srun]"; empty: another section's.
std::string_view key_of_evaluation(std::string_view text) {
  constexpr std::string_view section = "evaluation.";
  if (!text.starts_with(section)) return {};
  text.remove_prefix(section.size());
  return text.substr(0, text.find_first_of(".="));
}

bool changes_times(std::string_view text) {
  return std::ranges::find(kThatChangeTimes, key_of_evaluation(text)) != kThatChangeTimes.end();
}

bool changeable(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  if (std::ranges::find(kSections, section) != kSections.end()) return true;
  return changes_times(key) || std::ranges::find(kOthers, key_of_evaluation(key)) != kOthers.end();
}

}  // namespace

std::string changeable_settings() {
  return fmt::format("{}; and evaluation.KEY=VALUE: {}", fmt::join(kSections, ", "), keys_of_evaluation());
}

bool changes_evaluation(const std::string& override) {
  return !key_of_evaluation(override).empty() &&
         changeable(std::string_view(override).substr(0, override.find('=')));
}

void require_changeable(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string_view key = std::string_view(text).substr(0, text.find('='));
    if (changeable(key)) continue;
    if (key == "evaluation.cores")
      throw InputError("--set " + text +
                       ": another number of cores is another device, whose times cannot be compared with "
                       "the recorded ones. Begin a new run with it, and `cultivar submit` the best kernel to "
                       "that run");
    throw InputError(
        fmt::format("--set {}: a resumed search can change only its {}, and of its evaluation {}; begin a "
                    "new run for other settings",
                    text, fmt::join(kSections, ", "), keys_of_evaluation()));
  }
}

void require_larger_budgets(const Config& config, const std::vector<std::string>& overrides,
                            const Summary& so_far) {
  const std::map<std::string, double> limits{
      {"wall", config.budget.wall_s},
      {"evaluations", static_cast<double>(config.budget.evaluations)},
      {"device_hours", config.budget.device_s / 3600.0},
      {"plateau", config.budget.plateau_s},
      {"usd", config.budget.models.usd.value_or(0.0)},
      {"tokens", static_cast<double>(config.budget.models.tokens.value_or(0))}};
  for (const std::string& text : overrides)
    for (const auto& [kind, limit] : limits) {
      const auto use = so_far.budget.find(kind);
      if (!text.starts_with("budget." + kind + "=") || use == so_far.budget.end() || limit <= 0.0 ||
          use->second.used < limit)
        continue;
      const double used = use->second.used;
      throw InputError(fmt::format(
          "--set {}: {} {} already spent; set a larger budget", text,
          kind == "wall" || kind == "plateau" ? duration(std::floor(used)) : fmt::format("{:.6g}", used),
          kind == "evaluations" || kind == "tokens" || kind == "device_hours" ? "are" : "is"));
    }
}

std::string changed_settings(const std::vector<std::string>& overrides) {
  std::string changed;
  for (const std::string& text : overrides)
    if (text.starts_with("evaluation.")) changed += (changed.empty() ? "" : ", ") + text;
  if (changed.empty()) return {};
  const bool other_times = std::ranges::any_of(overrides, changes_times);
  return " with other settings: " + changed +
         (other_times ? ". Earlier times were measured with the former ones: the best kernel is measured "
                        "again first, and new variants are compared at its current pace"
                      : "");
}

}  // namespace cultivar
