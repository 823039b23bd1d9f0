// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/stopping_rule.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace cultivar {

std::string_view name_of(StopReason reason) {
  static constexpr std::array<std::string_view, 5> names{"not yet", "precise", "noise stable",
                                                         "sample limit reached", "time limit reached"};
  return names.at(static_cast<std::size_t>(reason));
}

StoppingRule::StoppingRule(StoppingOptions options) : options_(options) {
  if (options.min_samples < 2 || options.max_samples < options.min_samples)
    throw std::invalid_argument(
        "stopping rule: min_samples must be at least 2 and max_samples at least min_samples");
  if (!(options.max_seconds > 0.0) || !(options.max_error > 0.0) || !(options.noise_spread > 0.0))
    throw std::invalid_argument("stopping rule: max_seconds, max_error and noise_spread must be positive");
  if (options.noise_check_every < 1 || options.noise_window < options.min_noise_samples ||
      options.min_noise_samples < 2)
    throw std::invalid_argument(
        "stopping rule: the noise window must hold min_noise_samples, which must be at least 2");
}

void StoppingRule::add(double seconds) {
  if (!std::isfinite(seconds) || !(seconds > 0.0))
    throw std::invalid_argument("stopping rule: a time must be positive and finite");
  ++samples_;
  seconds_ += seconds;
  const double before = seconds - mean_;
  mean_ += before / samples_;
  squares_ += before * (seconds - mean_);
  if (samples_ < 2) return;
  noise_.push_back(relative_deviation());
  if (static_cast<int>(noise_.size()) > options_.noise_window) noise_.pop_front();
  if (samples_ % options_.noise_check_every == 0) stable_ = noise_is_stable();
}

StopReason StoppingRule::reason() const {
  if (samples_ >= options_.min_samples) {
    if (relative_error() <= options_.max_error) return StopReason::precise;
    if (stable_) return StopReason::noise_stable;
  }
  if (samples_ >= options_.max_samples) return StopReason::samples_spent;
  if (seconds_ >= options_.max_seconds) return StopReason::seconds_spent;
  return StopReason::not_yet;
}

double StoppingRule::relative_deviation() const {
  return std::sqrt(squares_ / (samples_ - 1)) / mean_;
}

double StoppingRule::relative_error() const {
  if (samples_ < 2) return std::numeric_limits<double>::infinity();
  return relative_deviation() / std::sqrt(static_cast<double>(samples_));
}

bool StoppingRule::noise_is_stable() const {
  if (static_cast<int>(noise_.size()) < options_.min_noise_samples) return false;
  const double now = noise_.back();
  double squares = 0.0;
  for (const double noise : noise_) squares += (noise - now) * (noise - now);
  return std::sqrt(squares / static_cast<double>(noise_.size() - 1)) < options_.noise_spread * now;
}

}  // namespace cultivar
