// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_remaining.hpp"

#include <algorithm>

namespace cultivar {
namespace {

constexpr double kUsualSeconds = 30.0;  // of confirmations of quick workloads

}  // namespace

void SuiteRemaining::begins(double budget_s) {
  skips(budget_s);
  began_closing_s_ = -1.0;
  closing_s_ = 0.0;
}

void SuiteRemaining::skips(double budget_s) {
  searches_s_ = std::max(0.0, searches_s_ - budget_s);
  --searches_;
}

double SuiteRemaining::usual_s() const {
  return (kUsualSeconds + all_closing_s_) / (1 + closed_);  // some have nothing to confirm
}

double SuiteRemaining::seconds(const Progress& progress) {
  const bool spent = progress.wall_limit_s > 0 && progress.elapsed_s >= progress.wall_limit_s;
  if (began_closing_s_ < 0 && (spent || !progress.closing.empty()))
    began_closing_s_ = spent ? progress.wall_limit_s : progress.elapsed_s;
  double own = progress.seconds_left;
  if (began_closing_s_ >= 0) {
    closing_s_ = progress.elapsed_s - began_closing_s_;
    own = -closing_s_;
  }
  // One that takes longer than usual suggests that the others will, too.
  const double each = std::max(usual_s(), closing_s_);
  return searches_s_ + each * searches_ + std::max(0.0, own + each);
}

void SuiteRemaining::ended() {
  if (began_closing_s_ < 0) return;
  all_closing_s_ += closing_s_;
  ++closed_;
}

}  // namespace cultivar
