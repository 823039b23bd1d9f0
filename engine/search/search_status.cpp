// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/config/duration.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

void SearchStatus::tell_of_stops() {
  constexpr double kWorthALine = 10.0;
  const double before = std::exchange(stopped_s_, stopped_s()), stopped = stopped_s_ - before;
  if (stopped < kWorthALine) return;
  parts_.recorder.step([&](Step& step) {
    parts_.recorder.tell(
        step, "suspended", 0,
        fmt::format("for {} until now, which counts for no deadline and no budget; the search goes on",
                    duration(stopped)));
  });
}

std::string SearchStatus::momentary() const {
  const Breeding& breeding = parts_.breeding;
  const std::size_t challengers = breeding.incumbent() ? breeding.challengers() : 0;
  std::optional<Momentary::Closing> closing;
  if (parts_.end.phase() == SearchEnd::Phase::closing)
    closing = {parts_.end.outcome()->reason, unix_now() + parts_.end.grace_left()};
  std::optional<DuelNow> duel;
  std::string doing = step();
  for (const auto& entry : parts_.pipeline.board().entries()) {
    if (entry.doing == InFlight::Doing::duel) duel = {entry.id, breeding.incumbent(), entry.note};
    if (entry.doing == InFlight::Doing::confirmation)
      doing = fmt::format("#{} is being confirmed{} ({:.0f} s)", entry.id,
                          entry.note.empty() ? "" : ": " + entry.note, seconds_since(entry.since));
  }
  return to_body({static_cast<std::int64_t>(challengers), parts_.faults.pause(), parts_.evaluator.pools(),
                  std::move(closing), std::move(duel), std::move(doing)});
}

std::string SearchStatus::step() const {
  constexpr double kLong = 5.0;  // shorter ones would only flicker
  return parts_.pipeline.board().step(parts_.evaluations.measured() > 0 ? kLong : 0.0);
}

std::string SearchStatus::starting_words(int starting) const {
  const std::vector<std::string>& launcher = parts_.config.evaluation.launcher;
  if (launcher.empty()) return {};  // it takes seconds
  return fmt::format("waiting for `{}` to start {} of {} workers", launcher.front(), starting,
                     parts_.evaluator.device_workers());
}

void SearchStatus::write(Step& step) const {
  parts_.questions.write_state(step);
  step.set("momentary", momentary());
  step.device_time(parts_.end.take_unrecorded_device_s());
}

// Each step also records the elapsed time, so that a kill refunds at most about 5 s of the wall budget.
void SearchStatus::heartbeat() {
  const SearchEnd::Phase phase = parts_.end.phase();
  const bool paused = parts_.faults.pause().has_value();
  if ((parts_.recorder.elapsed() - last_heartbeat_ <= 5.0 && paused == paused_ && phase == shown_phase_) ||
      phase == SearchEnd::Phase::leaving)
    return;
  last_heartbeat_ = parts_.recorder.elapsed();
  paused_ = paused;
  shown_phase_ = phase;
  parts_.recorder.step([this](Step& step) { write(step); });
}

void SearchStatus::show(bool ending) {
  heartbeat();
  if (!parts_.callbacks.progress) return;
  const auto& [config, evaluator, callbacks, recorder, breeding, pipeline, faults, evaluations, comparisons,
               questions, end] = parts_;
  const Budget& budget = config.budget;
  Progress p;
  p.elapsed_s = recorder.elapsed();
  evaluations.show(p);
  p.challengers = static_cast<std::int64_t>(breeding.challengers());
  p.step = step();
  for (const auto& [id, doing, note, since] : pipeline.board().entries()) {
    if (doing == InFlight::Doing::duel) --p.challengers;
    const Member member = breeding.archive().member(id);
    const IndividualId incumbent = doing == InFlight::Doing::duel ? breeding.incumbent() : 0;
    p.in_flight.push_back({id, name_of(member.origin, member.op), doing, incumbent, note});
  }
  p.jobs = pipeline.in_flight();
  p.wall_limit_s = budget.wall_s;
  p.evaluation_limit = budget.evaluations;
  p.device_s = end.device_s();
  p.device_limit_s = budget.device_s;
  p.promoted_s = end.promoted_s();
  if (ending && evaluations.in_flight() == 0 && !evaluations.has_pending()) {
    p.last_comparisons = comparisons.ended();
    p.most_last_comparisons = comparisons.most();
  }
  if (p.wall_limit_s > 0) p.seconds_left = std::max(0.0, p.wall_limit_s - p.elapsed_s);
  if (p.evaluation_limit > 0 && p.evaluations_per_hour > 0) {
    const double by_count =
        static_cast<double>(std::max<std::int64_t>(0, p.evaluation_limit - p.evaluations)) /
        p.evaluations_per_hour * 3600.0;
    p.seconds_left = p.wall_limit_s > 0 ? std::min(p.seconds_left, by_count) : by_count;
  }
  if (end.phase() == SearchEnd::Phase::closing) {
    p.closing = end.outcome()->reason;
    p.closing_left_s = std::max(0.0, end.grace_left());
  }
  p.workers = evaluator.pools();
  p.waiting = faults.waiting_words();
  if (const int starting = pipeline.starting_workers(); starting > 0 && p.waiting.empty())
    p.waiting = starting_words(starting);
  questions.show(p);
  callbacks.progress(p);
}

}  // namespace cultivar
