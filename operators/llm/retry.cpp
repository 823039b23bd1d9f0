// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/retry.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace cultivar
