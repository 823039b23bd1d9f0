// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "engine/config/duration.hpp"
#include "engine/store/interventions.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

SearchLoop::SearchLoop(SessionParts parts)
    : parts_(std::move(parts)),
      breeding_(parts_.breeding),
      recorder_(parts_.writer, parts_.callbacks),
      pipeline_(parts_.evaluator, parts_.dialogues, Questions::callers(parts_.config, parts_.dialogues)),
      second_tries_(recorder_),
      faults_(recorder_, parts_.config.evaluation.patience_s),
      evaluations_(parts_.config, recorder_, breeding_, parts_.sources, pipeline_, second_tries_, faults_),
      comparisons_(parts_.config, parts_.evaluator, recorder_, breeding_, parts_.sources, pipeline_,
                   second_tries_, faults_, parts_.loaded.contenders),
      profiles_(parts_.config, recorder_, breeding_, parts_.sources, pipeline_),
      questions_(parts_.config, parts_.folder, parts_.kit, parts_.dialogues, recorder_, breeding_,
                 parts_.sources, pipeline_),
      proposals_(parts_.config, parts_.folder, recorder_, breeding_, parts_.sources),
      checkpoints_(parts_.config.checkpoint, parts_.folder, recorder_),
      precedence_(parts_.config, parts_.turn_s, asks_models(), breeding_, evaluations_) {}

Outcome SearchLoop::run() {
  constexpr auto kTick = std::chrono::milliseconds(100);
  if (breeding_.archive().size() == 0)
    for (const IndividualId id : proposals_.seeds(parts_.loaded.seeds)) evaluations_.enqueue(id);
  recorder_.start_clock();
  began_s_ = recorder_.elapsed();
  device_s_ = 3600.0 * summary_of(recorder_.record()).budget.at("device_hours").used;
  if (const auto promotions = recorder_.record().promotions(); !promotions.empty())
    promoted_s_ = promotions.back().elapsed_s;
  for (auto tick_at = Clock::now(); !done_;) {
    const bool due = Clock::now() >= tick_at;
    const JobPtr job = due ? nullptr : pipeline_.next(tick_at);
    if (!due && !job) continue;
    try {
      serve(job);
    } catch (const std::exception& e) {  // a bug or an unreadable record
      step_failed_ = true;
      if (phase_ != Phase::leaving) stop(Outcome::Stop::failed, said_shortly(e));
      finish_if_idle();
    }
    if (due)
      tick_at = Clock::now() + kTick;  // from the end of the step: on a slow disk, jobs still get their turn
  }
  checkpoints_.take_last();
  const std::string state = state_after(outcome_->stop);
  try {
    recorder_.step([&](Step& step) {
      step.set("state", state);
      step.set("stop_reason", outcome_->reason);
      step.set("stop", std::string(name_of(outcome_->stop)));
      step.set("momentary", momentary());
      step.device_time(std::exchange(unrecorded_device_s_, 0.0));
      questions_.write_state(step);
      recorder_.tell(step, "stop", breeding_.incumbent(), outcome_->reason);
    });
  } catch (const std::exception&) {
    // The disk that stopped the search fails again.
    parts_.writer.end_unrecorded(outcome_->reason);
  }
  outcome_->best = breeding_.incumbent();
  return *outcome_;
}

void SearchLoop::serve(const JobPtr& job) {
  if (job)
    returned(job);
  else
    tick();
  advance();
  finish_if_idle();
  if (!job) show_progress();
}

void SearchLoop::tell_of_stops() {
  constexpr double kWorthALine = 10.0;
  const double before = std::exchange(stopped_s_, stopped_s()), stopped = stopped_s_ - before;
  if (stopped < kWorthALine) return;
  recorder_.step([&](Step& step) {
    recorder_.tell(
        step, "suspended", 0,
        fmt::format("for {} until now, which counts for no deadline and no budget; the search goes on",
                    duration(stopped)));
  });
}

void SearchLoop::tick() {
  tell_of_stops();
  if (parts_.stop && phase_ != Phase::leaving)
    stop(Outcome::Stop::interrupted, "interrupted; all results so far are recorded");
  watch_budgets();
  if (parts_.turn_s > 0) watch_turn();
  if (phase_ != Phase::running) return;
  if (const auto why = faults_.out_of_patience()) return stop(Outcome::Stop::failed, *why);
  questions_.reopen();
  questions_.tell_news();
  questions_.withdraw_superseded();
  constexpr std::size_t kMostPending = 64;  // further submissions stay in the inbox
  if (evaluations_.pending() < kMostPending)
    for (const IndividualId id : proposals_.submissions()) evaluations_.enqueue_first(id);
  checkpoints_.take_if_due(parts_.checkpoints_wanted ? parts_.checkpoints_wanted->load() : 0);
}

void SearchLoop::returned(const JobPtr& job) {
  if (!job->device_troubles.empty()) {
    recorder_.step([&](Step& step) {
      for (const std::string& what : job->device_troubles) recorder_.tell(step, "trouble", job->id, what);
    });
    job->device_troubles.clear();
  }
  count_device_time(*job);
  // The record still has the individual as proposed, or the question as open; a resumed search continues it.
  if (phase_ == Phase::leaving || job->abandoned) return lost(*job);
  const auto of_kernels = [&](const auto& work) {
    if constexpr (requires { work.result->host_fault; }) {
      if (work.result && !work.result->host_fault) faults_.succeeded();
    } else if (work.result) {
      faults_.succeeded();
    }
    return !job->trouble;
  };
  std::visit(
      Overloaded{[&](Ask& ask) { handle_outcome(questions_.answered(ask)); },
                 [&](Call& call) { handle_outcome(questions_.called(*job, call)); },
                 [&](TakeProfile& work) {
                   if (of_kernels(work))
                     profiles_.returned(job, work);
                   else
                     profiles_.failed(job->id, *job->trouble);
                   exhausted_at_.reset();  // questions may have waited for it
                 },
                 [&](Evaluate& work) {
                   if (!of_kernels(work)) return handle_failure(job, *job->trouble);
                   comparisons_.pace().beside(work);
                   evaluations_.returned(job, work, comparisons_.pace().medians_us());
                   comparisons_.watch_duel();
                   if (asks_models() && breeding_.archive().state(job->id) == Member::State::measured) {
                     if (breeding_.incumbent() == 0) profiles_.measured_first(job->id);
                     profiles_.measured(job->id);
                   }
                   questions_.withdraw_superseded();
                 },
                 [&](Pace& work) {
                   if (!of_kernels(work)) return handle_failure(job, *job->trouble);
                   comparisons_.pace().returned(job, work);
                 },
                 [&](Canary& work) {
                   if (!of_kernels(work)) return handle_failure(job, *job->trouble);
                   evaluations_.returned(job, work);
                 },
                 [&](auto& comparison) {
                   if (!of_kernels(comparison)) return handle_failure(job, *job->trouble);
                   compared(job, comparisons_.returned(job, comparison));
                 }},
      job->work);
}

void SearchLoop::lost(Job& job) {
  std::visit(Overloaded{[](const Ask&) {}, [](const Call&) {}, [&](const Evaluate&) { evaluations_.lost(); },
                        [&](const Pace&) { comparisons_.pace().lost(); },
                        [&](const TakeProfile&) { profiles_.lost(); },
                        [&](const Canary&) { faults_.canary_returned(std::nullopt); },
                        [&](const auto& /*comparison*/) { comparisons_.lost(); }},
             job.work);
}

void SearchLoop::handle_failure(const JobPtr& job, const Error& trouble) {
  lost(*job);
  // What a launcher starts may be there again later.
  if (trouble.kind == ErrorKind::missing && parts_.config.evaluation.launcher.empty())
    return stop(Outcome::Stop::failed, trouble.text());
  faults_.no_worker(job->id, trouble);
  // Comparisons::start() sends lost duels and confirmations again.
  if (std::holds_alternative<Evaluate>(job->work)) evaluations_.enqueue(job->id);
  if (std::holds_alternative<Pace>(job->work)) comparisons_.pace().give_up();
}

void SearchLoop::compared(const JobPtr& job, const Comparisons::Outcome& outcome) {
  if (outcome.trouble) return handle_failure(job, *outcome.trouble);
  if (outcome.promoted != 0) promoted_s_ = recorder_.elapsed();
  if (outcome.promoted != 0 && phase_ == Phase::closing && outcome_->stop == Outcome::Stop::plateau)
    reopen(outcome.promoted);
  // A winner is profiled while its confirmation compiles: the next questions are about it.
  if (const IndividualId faster = breeding_.winner() != 0 ? breeding_.winner() : outcome.promoted;
      faster != 0)
    profiles_.request(faster);
  questions_.withdraw_superseded();
}

void SearchLoop::handle_outcome(const Questions::Outcome& outcome) {
  if (outcome.fatal) return stop(Outcome::Stop::failed, *outcome.fatal);
  if (outcome.proposed != 0) evaluations_.enqueue(outcome.proposed);  // before new proposals
}

void SearchLoop::advance() {
  if (phase_ == Phase::leaving) return;
  for (const IndividualId id : faults_.released()) evaluations_.enqueue(id);
  if (faults_.resting()) return;
  if (faults_.canary_due()) {
    faults_.canary_sent();
    if (!evaluations_.start_canary()) faults_.canary_returned(std::nullopt);
  }
  // The pace is needed only if more individuals will be measured.
  if (running() && (evaluations_.has_pending() || budget_allows_another()))
    comparisons_.pace().start_if_due();
  if (comparisons_.pace().awaited()) return;  // until the pace of this session is known
  // After a failure, evaluations go before comparisons.
  if (faults_.canary_in_flight()) return;
  const bool before_evaluations =
      faults_.in_a_row() == 0 || (evaluations_.in_flight() == 0 && !evaluations_.has_pending());
  // The first questions need the first profile, which takes seconds; a slow seed's confirmation takes
  // minutes.
  if (running() && profiles_.first_due())
    profiles_.start();
  else if (before_evaluations && comparisons_.due(ending()) && !turn_is_over() && !kernels_first())
    comparisons_.start();
  if (!running() || turn_is_over()) return;
  profiles_.start();
  evaluations_.start_pending();
  // A proposal takes milliseconds to tens of milliseconds (some operators fit a surrogate), which would
  // disturb a concurrent measurement.
  while (evaluations_.has_room() && !evaluations_.has_pending() && breeding_.ready() &&
         budget_allows_another() && !questions_.availability().cap_spent() && !exhausted()) {
    if (!pipeline_.try_begin_loop_work()) break;  // retried at the next result or tick
    const auto end = std::shared_ptr<void>(nullptr, [this](void*) { pipeline_.end_loop_work(); });
    if (!breed_one()) exhausted_at_ = results();
  }
  ask_more();
}

bool SearchLoop::kernels_first() {
  if (comparisons_.in_flight() || !running()) {
    precedence_.reset();
    return false;
  }
  const double now = recorder_.elapsed();
  return precedence_.of_kernels(
      {now, now - began_s_, questions_.results_received(), questions_.calls_out() > 0,
       evaluations_.in_flight() > 0 || evaluations_.has_pending() || (!ending() && !exhausted())});
}

// Models need not wait for the device: during a comparison, which takes from seconds to minutes, further
// questions are asked. Composing one takes some milliseconds, which one of its many runs may notice.
void SearchLoop::ask_more() {
  // Kernels that wait for the device, for each question that may be open: answers without results are worth
  // less and less.
  constexpr std::size_t kMostAhead = 8;
  const auto most = kMostAhead * static_cast<std::size_t>(parts_.config.asking.in_flight);
  while (comparisons_.in_flight() && breeding_.ready() && budget_allows_another() &&
         !questions_.availability().cap_spent() && asked_out_at_ != results() &&
         evaluations_.pending() + static_cast<std::size_t>(evaluations_.in_flight()) < most) {
    std::optional<AskingLimits> room = questions_.room();
    if (!room || !room->questions || profiles_.first_due()) return;
    room->proposals = false;
    if (!breed_one(room)) asked_out_at_ = results();
  }
}

void SearchLoop::supervise() {
  while (const auto decision = breeding_.supervise()) {
    std::vector<Migration> moves;
    const std::optional<Intervention> last = breeding_.supervisor().current();
    std::visit(Overloaded{[&](const Intervention& begun) { moves = breeding_.begin(begun); },
                          [&](const InterventionResult& result) { breeding_.end(result); }},
               *decision);
    recorder_.step([&](Step& step) {
      std::visit(Overloaded{[&](const Intervention& begun) {
                              step.intervene(begun);
                              step.set("supervisor", supervisor_status(begun).dump());
                              recorder_.tell(step, "supervisor", begun.ancestor, text_of(begun));
                            },
                            [&](const InterventionResult& result) {
                              step.outcome(result);
                              step.set("supervisor", supervisor_status(*last, result).dump());
                              recorder_.tell(step, "supervisor", 0, text_of(result));
                            }},
                 *decision);
      for (const Migration& move : moves) step.migrate(move);
    });
  }
}

bool SearchLoop::breed_one() {
  std::optional<AskingLimits> room = questions_.room();
  if (room && profiles_.first_due()) room->questions = false;
  return breed_one(room);
}

bool SearchLoop::breed_one(const std::optional<AskingLimits>& room) {
  supervise();
  const auto offspring = breeding_.breed(room.value_or(AskingLimits{}));
  if (!offspring) return false;
  if (const Asking* asking = std::get_if<Asking>(&*offspring)) {
    questions_.ask(*asking, *room);
  } else {
    const NewProposal& bred = std::get<NewProposal>(*offspring);
    evaluations_.start(proposals_.bred(bred, room), bred.variant);
  }
  return true;
}

bool SearchLoop::budget_allows_another() const {
  const std::int64_t limit = parts_.config.budget.evaluations;
  if (limit == 0) return true;
  const auto asked = static_cast<std::int64_t>(breeding_.open_askings().size());
  return breeding_.archive().size() + asked < limit;
}

bool SearchLoop::ending() const {
  return running() && (!budget_allows_another() || questions_.availability().cap_spent());
}

std::string SearchLoop::left_words() const {
  const std::size_t left = breeding_.challengers();
  if (left == 0) return {};
  return fmt::format("; {} kernel{} for a duel after the last {} comparisons (budget.last_comparisons)", left,
                     left == 1 ? " still waits" : "s still wait", comparisons_.most());
}

std::string SearchLoop::momentary() const {
  const std::size_t challengers = breeding_.incumbent() ? breeding_.challengers() : 0;
  std::optional<Momentary::Closing> closing;
  if (phase_ == Phase::closing) closing = {outcome_->reason, unix_now() + grace_left()};
  std::optional<DuelNow> duel;
  std::string doing = step();
  for (const auto& entry : pipeline_.board().entries()) {
    if (entry.doing == InFlight::Doing::duel) duel = {entry.id, breeding_.incumbent(), entry.note};
    if (entry.doing == InFlight::Doing::confirmation)
      doing = fmt::format("#{} is being confirmed{} ({:.0f} s)", entry.id,
                          entry.note.empty() ? "" : ": " + entry.note, seconds_since(entry.since));
  }
  return to_body({static_cast<std::int64_t>(challengers), faults_.pause(), parts_.evaluator.pools(),
                  std::move(closing), std::move(duel), std::move(doing)});
}

std::string SearchLoop::step() const {
  constexpr double kLong = 5.0;  // shorter ones would only flicker
  return pipeline_.board().step(evaluations_.measured() > 0 ? kLong : 0.0);
}

bool SearchLoop::exhausted() const {
  return exhausted_at_ == results();
}

void SearchLoop::count_device_time(const Job& job) {
  double seconds = job.seconds;
  if (const Call* const call = std::get_if<Call>(&job.work); call && call->outcome)
    seconds = call->outcome->device_s;  // of its probes
  device_s_ += seconds;
  unrecorded_device_s_ += seconds;
}

std::string SearchLoop::tried() const {
  std::map<std::string, int> answers;
  for (const InterventionRow& row : interventions_of(recorder_.record()))
    if (row.at_s >= promoted_s_) ++answers[std::string(name_of(row.intervention.answer))];
  std::string text;
  for (const auto& [answer, count] : answers)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", answer, count);
  return text.empty() ? "the supervisor did not intervene" : "the supervisor tried: " + text;
}

void SearchLoop::close(Outcome::Stop why, std::string reason, double limit_s) {
  phase_ = Phase::closing;
  closing_s_ = recorder_.elapsed();
  closing_limit_s_ = limit_s;
  stop(why, std::move(reason));
  // A promotion may take back the end by a plateau: then nothing that waits is to be lost.
  if (why != Outcome::Stop::plateau) pipeline_.abandon_waiting();
}

void SearchLoop::reopen(IndividualId because) {
  phase_ = Phase::running;
  outcome_.reset();
  exhausted_at_.reset();
  recorder_.step([&](Step& step) {
    recorder_.tell(
        step, "session", because,
        "was promoted while the search ended for want of a promotion (budget.plateau): it goes on");
  });
}

double SearchLoop::grace_left() const {
  const bool longer = far_ahead(breeding_) != 0 && !turn_is_over();
  return closing_s_ + grace_after(closing_limit_s_, longer) - recorder_.elapsed();
}

void SearchLoop::watch_budgets() {
  const Budget& budget = parts_.config.budget;
  const double now = recorder_.elapsed();
  if (phase_ == Phase::running) {
    if (const auto spent = spent_budget(budget, now, device_s_))
      close(spent->stop, spent->reason, spent->limit_s);
    else if (budget.plateau_s > 0 && now - promoted_s_ >= budget.plateau_s)
      close(Outcome::Stop::plateau,
            fmt::format("no kernel was promoted for {} of search time; {}", duration(budget.plateau_s),
                        tried()),
            budget.plateau_s);
  }
  if (phase_ == Phase::closing && grace_left() <= 0) {  // until then, started jobs may finish
    if (!turn_is_over()) outcome_->reason += words_of_far_ahead(breeding_, recorder_.record().folder());
    phase_ = Phase::leaving;
    cancel_all();
  }
}

bool SearchLoop::turn_is_over() const {
  return parts_.turn_s > 0 &&
         (recorder_.elapsed() - began_s_ >= parts_.turn_s || (parts_.turn_ends && *parts_.turn_ends)) &&
         (!outcome_ || outcome_->stop == Outcome::Stop::turn);
}

void SearchLoop::finish_if_idle() {
  if (pipeline_.in_flight() > 0) return;
  if (running()) {
    if (evaluations_.has_pending() || comparisons_.due(ending()) || faults_.holds_some() || faults_.resting())
      return;
    if (!breeding_.ready() && faults_.has_put_off())
      stop(Outcome::Stop::failed, faults_.why_put_off());
    else if (!breeding_.ready())
      stop(Outcome::Stop::failed, evaluations_.why_no_seed());
    else if (!budget_allows_another())
      stop(Outcome::Stop::evaluations, fmt::format("the budget of {} evaluations is exhausted{}",
                                                   parts_.config.budget.evaluations, left_words()));
    else if (const auto& why = questions_.availability().cap_spent())
      stop(Outcome::Stop::models, "the budget for language models is exhausted: " + *why + left_words());
    else if (const std::string nobody = questions_.availability().why_no_model_left();
             exhausted() && !nobody.empty())
      stop(Outcome::Stop::failed, nobody);
    else if (exhausted() && asks_models() && faults_.has_put_off())  // questions may wait for them
      stop(Outcome::Stop::failed, faults_.why_put_off());
    else if (exhausted())
      stop(Outcome::Stop::exhausted, "every configuration that the operators can reach has been tried");
    else
      return;
  }
  if (phase_ == Phase::closing && comparisons_.due() && !turn_is_over())
    return;  // until the grace period ends
  if (outcome_) done_ = true;
}

void SearchLoop::stop(Outcome::Stop why, std::string reason) {
  if (why == Outcome::Stop::interrupted || why == Outcome::Stop::failed) return leave(why, std::move(reason));
  // Only the first reason counts; a later failure does not replace it.
  if (!outcome_) outcome_ = Outcome{why, std::move(reason), 0};
}

void SearchLoop::leave(Outcome::Stop why, std::string reason) {
  if (!outcome_) outcome_ = Outcome{why, std::move(reason), 0};
  phase_ = Phase::leaving;
  cancel_all();
}

void SearchLoop::cancel_all() {
  pipeline_.abandon_waiting();
  questions_.cancel();
  parts_.evaluator.interrupt();
}

std::string SearchLoop::starting_words(int starting) const {
  const std::vector<std::string>& launcher = parts_.config.evaluation.launcher;
  if (launcher.empty()) return {};  // it takes seconds
  return fmt::format("waiting for `{}` to start {} of {} workers", launcher.front(), starting,
                     parts_.evaluator.device_workers());
}

void SearchLoop::show_progress() {
  // Each step also records the elapsed time, so that a kill refunds at most about 5 s of the wall budget.
  const bool paused = faults_.pause().has_value();
  if ((recorder_.elapsed() - last_heartbeat_ > 5.0 || paused != paused_ || phase_ != shown_phase_) &&
      phase_ != Phase::leaving) {
    last_heartbeat_ = recorder_.elapsed();
    paused_ = paused;
    shown_phase_ = phase_;
    recorder_.step([this](Step& step) {
      questions_.write_state(step);
      step.set("momentary", momentary());
      step.device_time(std::exchange(unrecorded_device_s_, 0.0));
    });
  }
  if (!parts_.callbacks.progress) return;
  const Budget& budget = parts_.config.budget;
  Progress p;
  p.elapsed_s = recorder_.elapsed();
  evaluations_.show(p);
  p.challengers = static_cast<std::int64_t>(breeding_.challengers());
  p.step = step();
  for (const auto& [id, doing, note, since] : pipeline_.board().entries()) {
    if (doing == InFlight::Doing::duel) --p.challengers;
    const Member member = breeding_.archive().member(id);
    const IndividualId incumbent = doing == InFlight::Doing::duel ? breeding_.incumbent() : 0;
    p.in_flight.push_back({id, name_of(member.origin, member.op), doing, incumbent, note});
  }
  p.jobs = pipeline_.in_flight();
  p.wall_limit_s = budget.wall_s;
  p.evaluation_limit = budget.evaluations;
  p.device_s = device_s_;
  p.device_limit_s = budget.device_s;
  p.promoted_s = promoted_s_;
  if (ending() && evaluations_.in_flight() == 0 && !evaluations_.has_pending()) {
    p.last_comparisons = comparisons_.ended();
    p.most_last_comparisons = comparisons_.most();
  }
  if (p.wall_limit_s > 0) p.seconds_left = std::max(0.0, p.wall_limit_s - p.elapsed_s);
  if (p.evaluation_limit > 0 && p.evaluations_per_hour > 0) {
    const double by_count =
        static_cast<double>(std::max<std::int64_t>(0, p.evaluation_limit - p.evaluations)) /
        p.evaluations_per_hour * 3600.0;
    p.seconds_left = p.wall_limit_s > 0 ? std::min(p.seconds_left, by_count) : by_count;
  }
  if (phase_ == Phase::closing) {
    p.closing = outcome_->reason;
    p.closing_left_s = std::max(0.0, grace_left());
  }
  p.workers = parts_.evaluator.pools();
  p.waiting = faults_.waiting_words();
  if (const int starting = pipeline_.starting_workers(); starting > 0 && p.waiting.empty())
    p.waiting = starting_words(starting);
  questions_.show(p);
  parts_.callbacks.progress(p);
}

}  // namespace cultivar
