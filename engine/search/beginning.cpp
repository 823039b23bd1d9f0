// SPDX-License-Identifier: Apache-2.0
#include "engine/search/beginning.hpp"

#include <utility>

#include "engine/store/momentary.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/system/clock.hpp"

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

}  // namespace cultivar
