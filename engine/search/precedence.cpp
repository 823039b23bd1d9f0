// SPDX-License-Identifier: Apache-2.0
#include "engine/search/precedence.hpp"

#include <algorithm>

namespace cultivar {

namespace {

constexpr double kAtMost = 120.0;  // seconds

}  // namespace

Precedence::Precedence(const Config& config, double turn_s, bool asks, const Breeding& breeding,
                       const Evaluations& evaluations)
    : config_(config), turn_s_(turn_s), asks_(asks), breeding_(breeding), evaluations_(evaluations) {}

bool Precedence::of_kernels(const Now& now) {
  const Archive& archive = breeding_.archive();
  if (!due_) due_ = {now.elapsed_s, archive.size(), now.answers};
  if (now.elapsed_s - due_->since_s > kAtMost) return false;
  if (breeding_.incumbent() == 0 && (answers_awaited(now) || still_faster(now))) {
    due_->last = archive.size();
    return true;
  }
  return evaluations_.awaits_one_up_to(due_->last);
}

bool Precedence::answers_awaited(const Now& now) const {
  // Until questions are out, and answers that lie in mailboxes are read.
  constexpr double kUntilAsked = 4.0;
  if (!asks_ || !breeding_.archive().of_a_seed(*breeding_.challenger())) return false;
  const bool at_once = now.elapsed_s - due_->since_s < kUntilAsked;
  if (turn_s_ > 0) return at_once;
  return (at_once || now.answers_come) && now.answers - due_->answers < config_.asking.in_flight;
}

bool Precedence::still_faster(const Now& now) {
  constexpr double kNoticeably = 1.05;
  constexpr std::int64_t kInVain = 32;  // kernels that were measured without one that is noticeably faster
  constexpr double kShare = 0.25;
  const double fitness = breeding_.archive().fitness(*breeding_.challenger());
  if (fitness > kNoticeably * fastest_) {
    fastest_ = fitness;
    measured_then_ = evaluations_.measured();
  }
  return now.settings_come && evaluations_.measured() - measured_then_ < kInVain && now.elapsed_s < kAtMost &&
         share_used(now) < kShare;
}

double Precedence::share_used(const Now& now) const {
  const Budget& budget = config_.budget;
  double most = 0.0;
  if (budget.wall_s > 0) most = now.elapsed_s / budget.wall_s;
  if (turn_s_ > 0) most = std::max(most, now.session_s / turn_s_);
  if (budget.evaluations > 0)
    most = std::max(most, static_cast<double>(breeding_.judged()) / static_cast<double>(budget.evaluations));
  return most;
}

}  // namespace cultivar
