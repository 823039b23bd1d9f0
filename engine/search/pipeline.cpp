// SPDX-License-Identifier: Apache-2.0
#include "engine/search/pipeline.hpp"

#include <fmt/format.h>

#include "engine/search/search_bench.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

namespace {

int compilers_of(const Evaluator& evaluator) {
  return std::max(1, evaluator.compile_workers());
}
int devices_of(const Evaluator& evaluator) {
  return std::max(1, evaluator.device_workers());
}

Expected<Evaluation> measured_by(Evaluator& evaluator, int device, const EvaluateRequest& request,
                                 const Evaluator::Note& note) {
  return evaluator.evaluate(device, request, note);
}
Expected<GateReport> measured_by(Evaluator& evaluator, int device, const GateRequest& request,
                                 const Evaluator::Note& note) {
  return evaluator.gate(device, request, note);
}
Expected<ProfilePartial> measured_by(Evaluator& evaluator, int device, const ProfileRequest& request,
                                     const Evaluator::Note& note) {
  return evaluator.profile(device, request, note);
}

Priority priority_of(const Job& job) {
  if (job.probe) return Priority::usual;  // an agent's
  return std::visit(
      [](const auto& work) {
        if constexpr (requires { work.priority; })
          return work.priority;
        else
          return Priority::usual;
      },
      job.work);
}

bool hastens_compilers(const Job& job) {
  return priority_of(job) != Priority::usual;
}

bool is_droppable(const Job& job) {
  return std::visit(
      [](const auto& work) {
        if constexpr (requires { work.droppable; })
          return work.droppable;
        else
          return false;
      },
      job.work);
}

bool served(WorkerPool& pool, const JobPtr& job, const Watch& watch,
            const std::function<void(Job&)>& after = {}) {
  struct End {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool reached = false;
  };
  const auto end = std::make_shared<End>();
  pool.push(job, Priority::usual, [end, after](const JobPtr& done) {
    if (after) after(*done);
    {
      const std::lock_guard lock(end->mutex);
      end->reached = true;
    }
    end->changed.notify_all();
  });
  const auto reached = [&] { return end->reached; };
  // Bounded, because the clock's maximum overflows in conversions.
  const auto until = std::min(watch.deadline, Clock::now() + std::chrono::hours(24));
  std::unique_lock lock(end->mutex);
  if (!end->changed.wait_until(lock, watch.stop, until, reached)) {
    if (!job->claimed.exchange(true)) return false;
    end->changed.wait(lock, reached);
  }
  return !job->abandoned;
}

}  // namespace

Pipeline::Pipeline(Evaluator& evaluator, ModelDialogues* dialogues, int callers)
    : evaluator_(evaluator),
      dialogues_(dialogues),
      lease_(evaluator.timing_needs_quiet()),
      compilers_(compilers_of(evaluator), false, [this](Job& job, int) { compile_now(job); }),
      devices_(
          devices_of(evaluator), true, [this](Job& job, int device) { measure_now(job, device); },
          [this](int device) { return evaluator_.prepare(device); }),
      tools_(callers, false, [](Job& job, int) {
        Call& call = std::get<Call>(job.work);
        call.outcome = call.tool_calls->run(call.due, call.stop);
      }) {}

Pipeline::~Pipeline() {
  while (in_flight_ > 0) (void)next(Clock::now() + std::chrono::hours(1));
  evaluator_.interrupt();  // workers that a launcher has not started yet
}

void Pipeline::compile(JobPtr job) {
  ++in_flight_;
  const Priority priority = priority_of(*job);
  lease_.expect_compile(hastens_compilers(*job));
  board_.put(*job, InFlight::Doing::waiting_for_compiler);
  compilers_.push(std::move(job), priority, [this](const JobPtr& done) { add_returned(done); });
}

void Pipeline::measure(JobPtr job) {
  ++in_flight_;
  announce(*job);
  board_.put(*job, InFlight::Doing::waiting_for_device);
  const Priority priority = priority_of(*job);
  devices_.push(std::move(job), priority, [this](const JobPtr& done) {
    withdraw(*done);
    add_returned(done);
  });
}

void Pipeline::ask(JobPtr job) {
  ++in_flight_;
  const ChatOrder& order = std::get<Ask>(job->work).order;
  dialogues_->ask(order, [this, job](ServedResult answer) {
    std::get<Ask>(job->work).answer = std::move(answer);
    add_returned(job);
  });
}

void Pipeline::call(JobPtr job) {
  ++in_flight_;
  tools_.push(std::move(job), Priority::usual, [this](const JobPtr& done) { add_returned(done); });
}

void Pipeline::add_returned(const JobPtr& job) {
  // Notify while locked: once the last job is taken, the pipeline may be destroyed.
  const std::lock_guard lock(mutex_);
  returned_jobs_.push_back(job);
  returned_.notify_one();
}

JobPtr Pipeline::next(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_until(lock, until, [&] { return !returned_jobs_.empty(); })) return nullptr;
  JobPtr job = std::move(returned_jobs_.front());
  returned_jobs_.pop_front();
  --in_flight_;
  board_.remove(*job);
  return job;
}

void Pipeline::abandon_waiting() {
  abandoning_ = true;
}

bool Pipeline::compile_probe(const JobPtr& job, const Watch& watch) {
  lease_.expect_compile();
  return served(compilers_, job, watch);
}

bool Pipeline::measure_probe(const JobPtr& job, const Watch& watch) {
  announce(*job);
  return served(devices_, job, watch, [this](Job& done) { withdraw(done); });
}

// Comparisons of measured kernels are never dropped (see `droppable`). A probe with device troubles was
// claimed on the device that failed, so it is not claimed again.
bool Pipeline::dropped(Job& job) const {
  const bool withdrawn = job.probe && job.device_troubles.empty() && job.claimed.exchange(true);
  return withdrawn || (abandoning_ && is_droppable(job));
}

void Pipeline::compile_now(Job& job) {
  lease_.begin_compile(hastens_compilers(job));
  const auto end = std::shared_ptr<void>(nullptr, [this](void*) { lease_.end_compile(); });
  if (dropped(job)) {
    job.abandoned = true;
    return;
  }
  board_.put(job, InFlight::Doing::compiling);
  Build& build = *build_of(job);
  const std::string what = std::holds_alternative<Confirm>(job.work) ? "for its confirmation"
                           : std::holds_alternative<Duel>(job.work)  ? "for its duel"
                                                                     : "";
  board_.note(job, what);
  for (const VariantPtr& variant : build.variants)
    build.compiled.push_back(evaluator_.compile(*variant, build.workloads, build.breadth));
  for (const VariantPtr& contender : build.contenders) {
    board_.note(job, fmt::format("{}, now the contender {}", what, contender->manifest.name));
    build.compiled.push_back(evaluator_.compile(*contender, build.timed, Breadth::contender));
  }
}

void Pipeline::announce(Job& job) {
  if (!std::exchange(job.announced, true)) lease_.expect_measure();
}

void Pipeline::withdraw(Job& job) {
  if (std::exchange(job.announced, false)) lease_.withdraw_measure();
}

void Pipeline::measure_now(Job& job, int device) {
  announce(job);  // once more if it is retried on another device
  lease_.begin_measure();
  job.announced = false;
  const auto end = std::shared_ptr<void>(nullptr, [this](void*) { lease_.end_measure(); });
  if (dropped(job)) {
    job.abandoned = true;
    return;
  }
  const auto begun = Clock::now();
  std::visit(
      [&](auto& work) {
        if constexpr (requires { work.request; }) {
          board_.put(job, work.doing);
          auto found = measured_by(evaluator_, device, work.request,
                                   [&](const std::string& text) { board_.note(job, text); });
          if (found)
            work.result = std::move(*found);
          else
            job.trouble = found.error();
        }
      },
      job.work);
  job.seconds += seconds_since(begun);
}

std::string WorkInProgress::step(double least_seconds) const {
  using Doing = InFlight::Doing;
  const std::vector<Entry> all = entries();
  const auto compared = [](const Entry& each) {
    return each.doing == Doing::duel || each.doing == Doing::confirmation;
  };
  if (all.empty() || std::ranges::any_of(all, compared)) return {};
  const auto first = std::ranges::max_element(all, {}, [](const Entry& each) {
    const bool urgent = each.doing == Doing::compiling && !each.note.empty();
    return std::pair(urgent ? Doing::waiting_for_device : each.doing, urgent);
  });
  const auto what = [&]() -> std::string {
    switch (first->doing) {
      case Doing::waiting_for_compiler:
        return "waits for a compiler";
      case Doing::compiling:
        return "is being compiled" + (first->note.empty() ? "" : " " + first->note);
      case Doing::waiting_for_device:
        return "is compiled and waits for the device";
      case Doing::profile:
        return "is being profiled" + (first->note.empty() ? "" : ": " + first->note);
      default:
        return "is being evaluated" + (first->note.empty() ? "" : ": " + first->note);
    }
  };
  const double seconds = seconds_since(first->since);
  return seconds < least_seconds ? "" : fmt::format("#{} {} ({:.0f} s)", first->id, what(), seconds);
}

}  // namespace cultivar
