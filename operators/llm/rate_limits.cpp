// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/rate_limits.hpp"

#include <algorithm>

namespace cultivar {

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
