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
      precedence_(parts_.config, parts_.turn_s, asks_models(), breeding_, evaluations_),
      end_(parts_.config.budget, {parts_.turn_s, parts_.turn_ends}, recorder_, breeding_,
           [this](Phase phase, Outcome::Stop why) { entered(phase, why); }),
      status_({parts_.config, parts_.evaluator, parts_.callbacks, recorder_, breeding_, pipeline_, faults_,
               evaluations_, comparisons_, questions_, end_}) {}

Outcome SearchLoop::run() {
  constexpr auto kTick = std::chrono::milliseconds(100);
  if (breeding_.archive().size() == 0)
    for (const IndividualId id : proposals_.seeds(parts_.loaded.seeds)) evaluations_.enqueue(id);
  recorder_.start_clock();
  end_.begin();
  for (auto tick_at = Clock::now(); !done_;) {
    const bool due = Clock::now() >= tick_at;
    const JobPtr job = due ? nullptr : pipeline_.next(tick_at);
    if (!due && !job) continue;
    try {
      serve(job);
    } catch (const std::exception& e) {  // a bug or an unreadable record
      if (end_.phase() != Phase::leaving) end_.stop(Outcome::Stop::failed, said_shortly(e));
      finish_if_idle();
    }
    if (due)
      tick_at = Clock::now() + kTick;  // from the end of the step: on a slow disk, jobs still get their turn
  }
  checkpoints_.take_last();
  Outcome outcome = *end_.outcome();
  outcome.best = breeding_.incumbent();
  try {
    recorder_.step([&](Step& step) {
      step.set("state", state_after(outcome.stop));
      step.set("stop_reason", outcome.reason);
      step.set("stop", std::string(name_of(outcome.stop)));
      status_.write(step);
      recorder_.tell(step, "stop", outcome.best, outcome.reason);
    });
  } catch (const std::exception&) {
    // The disk that stopped the search fails again.
    parts_.writer.end_unrecorded(outcome.reason);
  }
  return outcome;
}

void SearchLoop::serve(const JobPtr& job) {
  if (job)
    returned(job);
  else
    tick();
  advance();
  finish_if_idle();
  if (!job) status_.show(ending());
}

void SearchLoop::tick() {
  status_.tell_of_stops();
  if (parts_.stop && end_.phase() != Phase::leaving)
    end_.stop(Outcome::Stop::interrupted, "interrupted; all results so far are recorded");
  end_.watch_budgets();
  if (parts_.turn_s > 0) watch_turn();
  if (end_.phase() != Phase::running) return;
  if (const auto why = faults_.out_of_patience()) return end_.stop(Outcome::Stop::failed, *why);
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
  end_.count_device_time(*job);
  // The record still has the individual as proposed, or the question as open; a resumed search continues it.
  if (end_.phase() == Phase::leaving || job->abandoned) return lost(*job);
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
    return end_.stop(Outcome::Stop::failed, trouble.text());
  faults_.no_worker(job->id, trouble);
  // Comparisons::start() sends lost duels and confirmations again.
  if (std::holds_alternative<Evaluate>(job->work)) evaluations_.enqueue(job->id);
  if (std::holds_alternative<Pace>(job->work)) comparisons_.pace().give_up();
}

void SearchLoop::compared(const JobPtr& job, const Comparisons::Outcome& outcome) {
  if (outcome.trouble) return handle_failure(job, *outcome.trouble);
  if (outcome.promoted != 0 && end_.promoted(outcome.promoted)) exhausted_at_.reset();
  // A winner is profiled while its confirmation compiles: the next questions are about it.
  if (const IndividualId faster = breeding_.winner() != 0 ? breeding_.winner() : outcome.promoted;
      faster != 0)
    profiles_.request(faster);
  questions_.withdraw_superseded();
}

void SearchLoop::handle_outcome(const Questions::Outcome& outcome) {
  if (outcome.fatal) return end_.stop(Outcome::Stop::failed, *outcome.fatal);
  if (outcome.proposed != 0) evaluations_.enqueue(outcome.proposed);  // before new proposals
}

void SearchLoop::advance() {
  if (end_.phase() == Phase::leaving) return;
  for (const IndividualId id : faults_.released()) evaluations_.enqueue(id);
  if (faults_.resting()) return;
  if (faults_.canary_due()) {
    faults_.canary_sent();
    if (!evaluations_.start_canary()) faults_.canary_returned(std::nullopt);
  }
  // The pace is needed only if more individuals will be measured.
  if (end_.running() && (evaluations_.has_pending() || budget_allows_another()))
    comparisons_.pace().start_if_due();
  if (comparisons_.pace().awaited()) return;  // until the pace of this session is known
  // After a failure, evaluations go before comparisons.
  if (faults_.canary_in_flight()) return;
  const bool before_evaluations =
      faults_.in_a_row() == 0 || (evaluations_.in_flight() == 0 && !evaluations_.has_pending());
  // The first questions need the first profile, which takes seconds; a slow seed's confirmation takes
  // minutes.
  if (end_.running() && profiles_.first_due())
    profiles_.start();
  else if (before_evaluations && comparisons_.due(ending()) && !end_.turn_is_over() && !kernels_first())
    comparisons_.start();
  if (!end_.running() || end_.turn_is_over()) return;
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
  if (comparisons_.in_flight() || !end_.running()) {
    precedence_.reset();
    return false;
  }
  const double now = recorder_.elapsed();
  return precedence_.of_kernels(
      {now, recorder_.session(), questions_.results_received(), questions_.calls_out() > 0,
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
  return end_.running() && (!budget_allows_another() || questions_.availability().cap_spent());
}

std::string SearchLoop::left_words() const {
  const std::size_t left = breeding_.challengers();
  if (left == 0) return {};
  return fmt::format("; {} kernel{} for a duel after the last {} comparisons (budget.last_comparisons)", left,
                     left == 1 ? " still waits" : "s still wait", comparisons_.most());
}

bool SearchLoop::exhausted() const {
  return exhausted_at_ == results();
}

// After watch_budgets(): a budget that is used up ends the search for good. The comparison in flight is not
// cut off, because the next turn would only begin it anew; but that of a seed is, if answers may make it
// needless.
void SearchLoop::watch_turn() {
  constexpr double kAnswersAreRead = 4.0;  // seconds until those are that lie in a mailbox already
  constexpr const char* kAwaited = "only answers in mailboxes are awaited";
  if (end_.phase() == Phase::running && end_.turn_is_over()) {
    if (!comparisons_.in_flight())
      return end_.close(Outcome::Stop::turn,
                        parts_.turn_ends && *parts_.turn_ends
                            ? "another search goes on"
                            : fmt::format("its turn of {} is over", duration(parts_.turn_s)),
                        parts_.turn_s);
    if (breeding_.incumbent() == 0 && questions_.letters_out() > 0) {
      // What waits for the device is done in a later turn.
      bool of_seeds = true, busy = false;
      for (const auto& entry : pipeline_.board().entries()) {
        of_seeds = of_seeds && breeding_.archive().of_a_seed(entry.id);
        busy = busy || entry.doing == InFlight::Doing::compiling ||
               entry.doing == InFlight::Doing::evaluating ||
               (entry.doing == InFlight::Doing::confirmation && !breeding_.archive().of_a_seed(entry.id));
      }
      if (!busy)
        return end_.leave(
            of_seeds ? Outcome::Stop::letters : Outcome::Stop::turn,
            "answers in mailboxes are awaited, and may make the confirmation of a seed needless");
    }
  }
  const int letters = questions_.letters_out();
  if (end_.phase() == Phase::leaving || letters == 0 || pipeline_.in_flight() != letters)
    return only_letters_since_.reset();
  const bool nothing_else = exhausted() && !evaluations_.has_pending() && !comparisons_.due(ending()) &&
                            !profiles_.first_due() && !faults_.holds_some() && !faults_.resting();
  if (end_.phase() == Phase::closing) {  // not for a budget: its grace period ends by itself
    if (!end_.turn_is_over()) return;
    return nothing_else ? end_.leave_instead(Outcome::Stop::letters, kAwaited)
                        : end_.leave(Outcome::Stop::turn, kAwaited);
  }
  if (!nothing_else) return only_letters_since_.reset();
  if (!only_letters_since_) only_letters_since_ = Clock::now();
  if (seconds_since(*only_letters_since_) >= kAnswersAreRead) end_.leave(Outcome::Stop::letters, kAwaited);
}

void SearchLoop::finish_if_idle() {
  if (pipeline_.in_flight() > 0) return;
  if (end_.running()) {
    if (evaluations_.has_pending() || comparisons_.due(ending()) || faults_.holds_some() || faults_.resting())
      return;
    if (!breeding_.ready() && faults_.has_put_off())
      end_.stop(Outcome::Stop::failed, faults_.why_put_off());
    else if (!breeding_.ready())
      end_.stop(Outcome::Stop::failed, evaluations_.why_no_seed());
    else if (!budget_allows_another())
      end_.stop(Outcome::Stop::evaluations, fmt::format("the budget of {} evaluations is exhausted{}",
                                                        parts_.config.budget.evaluations, left_words()));
    else if (const auto& why = questions_.availability().cap_spent())
      end_.stop(Outcome::Stop::models, "the budget for language models is exhausted: " + *why + left_words());
    else if (const std::string nobody = questions_.availability().why_no_model_left();
             exhausted() && !nobody.empty())
      end_.stop(Outcome::Stop::failed, nobody);
    else if (exhausted() && asks_models() && faults_.has_put_off())  // questions may wait for them
      end_.stop(Outcome::Stop::failed, faults_.why_put_off());
    else if (exhausted())
      end_.stop(Outcome::Stop::exhausted, "every configuration that the operators can reach has been tried");
    else
      return;
  }
  if (end_.phase() == Phase::closing && comparisons_.due() && !end_.turn_is_over())
    return;  // until the grace period ends
  if (end_.outcome()) done_ = true;
}

void SearchLoop::entered(Phase phase, Outcome::Stop why) {
  if (phase == Phase::running) return;
  // A promotion may take back the end by a plateau: then nothing that waits is to be lost.
  if (phase == Phase::leaving || why != Outcome::Stop::plateau) pipeline_.abandon_waiting();
  if (phase != Phase::leaving) return;
  questions_.cancel();
  parts_.evaluator.interrupt();
}

}  // namespace cultivar
