// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/circuit_breaker.hpp"

#include <algorithm>
#include <limits>

namespace cultivar {

namespace {
constexpr double kLongestRest = 600.0;
}

CircuitBreaker::State CircuitBreaker::state(double now) const {
  if (!open_) return State::closed;
  return trial_ || now >= open_until_ ? State::trying : State::open;
}

double CircuitBreaker::ready_at(double now) const {
  if (!open_) return now;
  if (trial_) return std::numeric_limits<double>::infinity();
  return std::max(now, open_until_);
}

void CircuitBreaker::begin(double now) {
  if (open_ && now >= open_until_) trial_ = true;
}

void CircuitBreaker::succeeded() {
  failures_ = 0;
  open_ = trial_ = false;
  rest_s_ = first_rest_s_;
}

void CircuitBreaker::failed(double now) {
  ++failures_;
  if (trial_) {
    rest_s_ = std::min(2.0 * rest_s_, kLongestRest);
    trial_ = false;
    open_until_ = now + rest_s_;
  } else if (!open_ && failures_ >= failures_to_open_) {
    open_ = true;
    open_until_ = now + rest_s_;
  }  // a call that started before the breaker opened gives no new information
}

void CircuitBreaker::undecided() {
  trial_ = false;
}

}  // namespace cultivar
