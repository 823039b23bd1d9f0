#include "engine/search_loop.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/store/checkpoint.hpp"
#include "evaluators/foreign_json.hpp"

namespace cultivar {

SearchLoop::SearchLoop(const Config& config, const RunFolder& folder, Journal& journal, Breeding& breeding,
                       Evaluator& evaluator, Correspondence* correspondence, const PromptKit& kit,
                       const Faces& faces, const std::atomic<bool>& stop)
    : config_(config),
      folder_(folder),
      journal_(journal),
      breeding_(breeding),
      evaluator_(evaluator),
      correspondence_(correspondence),
      kit_(kit),
      faces_(faces),
      stop_(stop),
      ledger_(config.gate_alpha) {
  const Summary so_far = journal.record().summary();
  elapsed_before_ = last_checkpoint_ = so_far.elapsed_s;
  judged_before_ = so_far.evaluations;
  measured_ = so_far.measured;
  rejected_ = so_far.rejected;
  ledger_ = AlphaLedger(config.gate_alpha, static_cast<std::uint64_t>(so_far.duels));
  if (const auto seed = journal.record().first_seed())
    first_seed_ = *seed, first_seed_fitness_ = journal.record().individual(*seed)->individual.fitness;
  unit_ = journal.record().facts().unit_of_fitness;
  for (const std::string& library : config.libraries) libraries_.push_back(evaluator.contender(library));
  for (const auto& file : config.contenders) contenders_.push_back(load_variant(file, breeding.task()));
  if (!config.holdout.empty()) holdout_ = breeding.task().workloads(config.holdout)->workloads;
  if (const IndividualId incumbent = breeding.incumbent())
    if (const auto evaluation = journal.record().evaluation(incumbent))
      for (const WorkloadResult& workload : evaluation->workloads)
        incumbent_us_[workload.workload] = workload.median_us;
  for (const IndividualId id : breeding.archive().in_flight()) owed_.push_back(id);
  put_off_ = journal.record().put_off();
  unpaced_ = breeding.incumbent() != 0;
  // A card that has rested is warm within minutes, and slower by some percent for the rest of the day.
  pace_gap_s_ = std::min(60.0, config.evaluation.pace_every_s);
  pace_due_ = elapsed_before_ + (unpaced_ ? 0.0 : pace_gap_s_);
}

// Threads for the tools of agents: each waits for one call at a time.
int SearchLoop::callers() const {
  constexpr int kMost = 16;
  const auto is_agent = [](const OperatorShare& share) { return share.name == "agent"; };
  if (!correspondence_ || std::ranges::none_of(config_.operators, is_agent)) return 0;
  return std::min(config_.asking.in_flight, kMost);
}

Outcome SearchLoop::run() {
  if (breeding_.archive().size() == 0) propose_seeds();
  began_ = Clock::now();
  pipeline_ = std::make_unique<Pipeline>(evaluator_, correspondence_, callers(), [this](JobPtr job) {
    try {
      steward(job);
    } catch (const std::exception& e) {  // a bug, or a record that became unreadable: stop, and say so
      if (phase_ != Phase::leaving) stop(Outcome::Stop::failed, said_shortly(e));
      finish_if_idle();
    }
  });
  while (!done_) {
    if (!tick_pending_.exchange(true)) pipeline_->wake();
    std::this_thread::sleep_for(std::chrono::milliseconds(done_ ? 0 : 100));
  }
  pipeline_->wait();
  take_checkpoint(true);
  const std::string state = outcome_->stop == Outcome::Stop::interrupted ? "stopped"
                            : outcome_->stop == Outcome::Stop::failed    ? "failed"
                                                                         : "finished";
  try {
    record([&](Step& step) {
      step.set("state", state);
      step.set("stop_reason", outcome_->reason);
      record_models(step);
      tell(step, "stop", breeding_.incumbent(), outcome_->reason);
    });
  } catch (const std::exception&) {
    // The disk that stopped the search may refuse this too; the outcome says why it stopped.
  }
  outcome_->best = breeding_.incumbent();
  return *outcome_;
}

double SearchLoop::elapsed() const {
  return elapsed_before_ + std::chrono::duration<double>(Clock::now() - began_).count();
}

void SearchLoop::record(const std::function<void(Step&)>& write) {
  untold_.clear();
  if (auto written = journal_.step(elapsed(), write); !written)
    throw std::runtime_error(written.error().message);
  for (const Event& event : untold_)
    if (faces_.event) faces_.event(event);
  untold_.clear();
}

void SearchLoop::tell(Step& step, const std::string& kind, IndividualId id, std::string text) {
  step.event(kind, id, text);
  untold_.push_back({elapsed(), kind, std::move(text), id});
}

void SearchLoop::stop(Outcome::Stop why, std::string reason) {
  // The first reason is the reason; failing on the way out does not hide it.
  if (!outcome_) outcome_ = Outcome{why, std::move(reason), 0};
  if (why == Outcome::Stop::interrupted || why == Outcome::Stop::failed) {
    phase_ = Phase::leaving;
    pipeline_->abandon_waiting();
    tools_stop_.request_stop();
    evaluator_.interrupt();
    if (correspondence_) correspondence_->cancel();
  }
}

void SearchLoop::steward(const JobPtr& job) {
  if (job) {
    came_back(job);
  } else {
    tick_pending_ = false;
    if (stop_ && phase_ != Phase::leaving)
      stop(Outcome::Stop::interrupted, "interrupted; nothing that was recorded is lost");
    watch_budgets();
    if (phase_ == Phase::running) {
      reopen_questions();
      if (correspondence_)
        if (const auto news = correspondence_->news(); !news.empty())
          record([&](Step& step) {
            for (const std::string& text : news) tell(step, "model", 0, text);
          });
      take_submissions();
      take_checkpoint(false);
    }
  }
  advance();
  finish_if_idle();
  if (!job) show_progress();
}

void SearchLoop::leave(const Job& job) {
  if (job.kind == Job::Kind::ask || job.kind == Job::Kind::call) {
    --calls_out_;
    return;
  }
  pipeline_->board().remove(job.id);
  if (job.kind == Job::Kind::evaluate)
    --evaluating_;
  else if (job.kind == Job::Kind::profile)
    profiling_ = false;
  else if (job.kind == Job::Kind::pace)
    pacing_ = false;
  else
    comparing_ = false;
}

void SearchLoop::came_back(const JobPtr& job) {
  if (job->kind == Job::Kind::ask) return answered(job);
  if (job->kind == Job::Kind::call) return called_tool(job);
  const bool measured = job->evaluation || job->report || job->profile;
  if (!job->device_troubles.empty()) {
    record([&](Step& step) {
      for (const std::string& what : job->device_troubles) tell(step, "trouble", job->id, what);
    });
    job->device_troubles.clear();
  }
  // It stays proposed in the record, and a resumed search evaluates it.
  if (phase_ == Phase::leaving || job->abandoned) return leave(*job);
  if (job->trouble && job->kind == Job::Kind::profile) {  // the search does not need it
    leave(*job);
    no_profiles_ = job->trouble->message;
    return record([&](Step& step) { tell(step, "trouble", job->id, "no profile: " + no_profiles_); });
  }
  if (job->trouble) return had_trouble(job);
  if (!measured) return compiled(job);
  troubles_ = 0;
  leave(*job);
  switch (job->kind) {
    case Job::Kind::evaluate:
      return judge(job->id, *job->evaluation, job->kernel, 0);
    case Job::Kind::duel:
      return judged_duel(job);
    case Job::Kind::confirm:
      return judged_confirmation(job);
    case Job::Kind::pace:
      return paced(job);
    case Job::Kind::profile:
      return profiled(job);
    case Job::Kind::ask:
    case Job::Kind::call:
    case Job::Kind::probe:
      return;
  }
}

}  // namespace cultivar
