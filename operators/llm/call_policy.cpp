// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/call_policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cultivar {

using Kind = ChatError::Kind;

namespace {

// The wait that the server requests, bounded so that a server cannot stop a search indefinitely.
std::optional<double> asked_wait(const ChatError& error) {
  if (!error.retry_after_s) return std::nullopt;
  return std::clamp(*error.retry_after_s, 0.0, kLongestAskedWaitS);
}

double backoff(double first, double longest, int times, RandomStream& stream) {
  const double wait = std::min(longest, first * std::exp2(std::clamp(times - 1, 0, 60)));
  return wait * (0.5 + 0.5 * uniform(stream));
}

}  // namespace

double wait_before_retry(const RetryRule& rule, int failures, const ChatError& error, RandomStream& stream) {
  const double wait = backoff(rule.first_wait_s, rule.longest_wait_s, failures, stream);
  return std::max(wait, asked_wait(error).value_or(0.0));
}

Consequence consequence_of(Kind kind) {
  const auto is = [kind](auto... any) { return ((kind == any) || ...); };
  if (is(Kind::rate_limited, Kind::out_of_credit, Kind::unwritable)) return Consequence::hold;
  if (is_passing(kind)) return Consequence::retry;
  if (is(Kind::bad_request, Kind::auth, Kind::refused, Kind::too_large, Kind::no_recording))
    return Consequence::next_model;
  return Consequence::give_up;
}

double hold_time(const RetryRule& rule, int holds, const ChatError& error, RandomStream& stream) {
  // Credit only returns after a payment: retry slowly.
  if (error.kind == Kind::out_of_credit)
    return std::max(backoff(15.0 * rule.first_wait_s, 600.0, holds, stream), asked_wait(error).value_or(0.0));
  if (const auto asked = asked_wait(error)) return *asked * (1.0 + 0.05 * uniform(stream));
  return backoff(rule.first_wait_s, rule.longest_wait_s, holds, stream);
}

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

namespace {

// Providers with limits for input tokens do not count cached tokens.
double input_of(const Usage& usage) {
  return static_cast<double>(usage.input + usage.cache_written);
}
double output_of(const Usage& usage) {
  return static_cast<double>(usage.output);
}

}  // namespace

double TokenBucket::level_at(double now) const {
  return std::min(60.0 * rate_, level_ + rate_ * std::max(0.0, now - at_));
}

double TokenBucket::ready_at(double amount, double now) const {
  const double wanted = std::min(amount, 60.0 * rate_), level = level_at(now);
  // A rounding error must not make a caller wait again.
  return level >= wanted - 1e-9 ? now : now + (wanted - level) / rate_;
}

void TokenBucket::take(double amount, double now) {
  level_ = std::min(60.0 * rate_, level_at(now) - amount);
  at_ = std::max(at_, now);
}

RateLimits::RateLimits(const RateLimit& limit, double now)
    : requests_(limit.requests, now),
      input_(limit.input_tokens, now),
      output_(limit.output_tokens, now),
      limits_requests_(limit.requests > 0),
      limits_input_(limit.input_tokens > 0),
      limits_output_(limit.output_tokens > 0) {}

double RateLimits::ready_at(const Usage& expected, double now) const {
  double ready = now;
  if (limits_requests_) ready = std::max(ready, requests_.ready_at(1.0, now));
  if (limits_input_) ready = std::max(ready, input_.ready_at(input_of(expected), now));
  if (limits_output_) ready = std::max(ready, output_.ready_at(output_of(expected), now));
  return ready;
}

void RateLimits::begin(const Usage& expected, double now) {
  if (limits_requests_) requests_.take(1.0, now);
  if (limits_input_) input_.take(input_of(expected), now);
  if (limits_output_) output_.take(output_of(expected), now);
}

void RateLimits::end(const Usage& expected, const Usage& used, double now) {
  if (limits_input_) input_.give_back(input_of(expected) - input_of(used), now);
  if (limits_output_) output_.give_back(output_of(expected) - output_of(used), now);
}

}  // namespace cultivar
