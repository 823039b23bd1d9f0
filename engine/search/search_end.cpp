// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/config/duration.hpp"
#include "engine/store/interventions.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::optional<SpentBudget> spent_budget(const Budget& budget, double elapsed_s, double device_s) {
  if (budget.wall_s > 0 && elapsed_s >= budget.wall_s)
    return SpentBudget{Outcome::Stop::wall,
                       fmt::format("the wall-clock budget of {} is exhausted", duration(budget.wall_s)),
                       budget.wall_s};
  if (budget.device_s > 0 && device_s >= budget.device_s)
    return SpentBudget{
        Outcome::Stop::device,
        fmt::format("the budget of {:.6g} device hours is exhausted", budget.device_s / 3600.0),
        budget.device_s};
  return std::nullopt;
}

IndividualId far_ahead(const Breeding& breeding) {
  constexpr double kClearly = 1.05;
  const Archive& archive = breeding.archive();
  const IndividualId best = breeding.incumbent();
  const IndividualId next = breeding.winner() != 0 ? breeding.winner() : breeding.challenger().value_or(0);
  if (next == 0 || best == 0) return next;
  return archive.fitness(next) > kClearly * archive.fitness(best) ? next : 0;
}

double grace_after(double limit_s, bool longer) {
  return std::max(std::clamp(0.1 * limit_s, 5.0, 60.0), longer ? 150.0 : 0.0);
}

std::string words_of_far_ahead(const Breeding& breeding, const std::filesystem::path& run_folder) {
  const IndividualId id = far_ahead(breeding), best = breeding.incumbent();
  if (id == 0 || best == 0) return {};
  return fmt::format(
      "; #{}, measured to be {:.3g} times as fast as the best, waits for its {}: `cultivar resume {}`", id,
      breeding.archive().fitness(id) / breeding.archive().fitness(best),
      id == breeding.winner() ? "confirmation" : "duel", shell_word(run_folder.string()));
}

SearchEnd::SearchEnd(const Budget& budget, Turn turn, Recorder& recorder, const Breeding& breeding,
                     Changed changed)
    : budget_(budget), turn_(turn), recorder_(recorder), breeding_(breeding), changed_(std::move(changed)) {}

void SearchEnd::begin() {
  device_s_ = 3600.0 * summary_of(recorder_.record()).budget.at("device_hours").used;
  if (const auto promotions = recorder_.record().promotions(); !promotions.empty())
    promoted_s_ = promotions.back().elapsed_s;
}

bool SearchEnd::turn_is_over() const {
  return turn_.seconds > 0 &&
         (recorder_.session() >= turn_.seconds || (turn_.ends != nullptr && *turn_.ends)) &&
         (!outcome_ || outcome_->stop == Outcome::Stop::turn);
}

double SearchEnd::grace_left() const {
  const bool longer = far_ahead(breeding_) != 0 && !turn_is_over();
  return closing_s_ + grace_after(closing_limit_s_, longer) - recorder_.elapsed();
}

void SearchEnd::enter(Phase phase, Outcome::Stop why) {
  phase_ = phase;
  changed_(phase, why);
}

void SearchEnd::stop(Outcome::Stop why, std::string reason) {
  if (!outcome_) outcome_ = Outcome{why, std::move(reason), 0};
  if (why == Outcome::Stop::interrupted || why == Outcome::Stop::failed) enter(Phase::leaving, why);
}

void SearchEnd::close(Outcome::Stop why, std::string reason, double limit_s) {
  closing_s_ = recorder_.elapsed();
  closing_limit_s_ = limit_s;
  stop(why, std::move(reason));
  enter(Phase::closing, why);
}

void SearchEnd::leave(Outcome::Stop why, std::string reason) {
  if (!outcome_) outcome_ = Outcome{why, std::move(reason), 0};
  enter(Phase::leaving, why);
}

void SearchEnd::leave_instead(Outcome::Stop why, std::string reason) {
  outcome_.reset();
  leave(why, std::move(reason));
}

bool SearchEnd::promoted(IndividualId best) {
  promoted_s_ = recorder_.elapsed();
  if (phase_ != Phase::closing || outcome_->stop != Outcome::Stop::plateau) return false;
  outcome_.reset();
  enter(Phase::running, Outcome::Stop::plateau);
  recorder_.step([&](Step& step) {
    recorder_.tell(
        step, "session", best,
        "was promoted while the search ended for want of a promotion (budget.plateau): it goes on");
  });
  return true;
}

std::string SearchEnd::tried() const {
  std::map<std::string, int> answers;
  for (const InterventionRow& row : interventions_of(recorder_.record()))
    if (row.at_s >= promoted_s_) ++answers[std::string(name_of(row.intervention.answer))];
  std::string text;
  for (const auto& [answer, count] : answers)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", answer, count);
  return text.empty() ? "the supervisor did not intervene" : "the supervisor tried: " + text;
}

void SearchEnd::watch_budgets() {
  const double now = recorder_.elapsed();
  if (phase_ == Phase::running) {
    if (const auto spent = spent_budget(budget_, now, device_s_))
      close(spent->stop, spent->reason, spent->limit_s);
    else if (budget_.plateau_s > 0 && now - promoted_s_ >= budget_.plateau_s)
      close(Outcome::Stop::plateau,
            fmt::format("no kernel was promoted for {} of search time; {}", duration(budget_.plateau_s),
                        tried()),
            budget_.plateau_s);
  }
  if (phase_ == Phase::closing && grace_left() <= 0) {  // until then, started jobs may finish
    if (!turn_is_over()) outcome_->reason += words_of_far_ahead(breeding_, recorder_.record().folder());
    enter(Phase::leaving, outcome_->stop);
  }
}

void SearchEnd::count_device_time(const Job& job) {
  double seconds = job.seconds;
  if (const Call* const call = std::get_if<Call>(&job.work); call && call->outcome)
    seconds = call->outcome->device_s;  // of its probes
  device_s_ += seconds;
  unrecorded_device_s_ += seconds;
}

double SearchEnd::take_unrecorded_device_s() {
  return std::exchange(unrecorded_device_s_, 0.0);
}

}  // namespace cultivar
