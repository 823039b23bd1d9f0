#include "operators/llm/retry.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

using Kind = ChatError::Kind;

namespace {

// What the server asks for, within bounds: a search may not sleep for as long as somebody else likes.
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
  switch (kind) {
    case Kind::rate_limited:
    case Kind::out_of_credit:
      return Consequence::hold;
    case Kind::overloaded:
    case Kind::unreachable:
    case Kind::timeout_connect:
    case Kind::timeout_first_byte:
    case Kind::timeout_idle:
    case Kind::timeout_total:
    case Kind::cut_off:
    case Kind::garbage:
    case Kind::program_failed:
      return Consequence::retry;
    case Kind::bad_request:
    case Kind::auth:
    case Kind::refused:
    case Kind::too_large:
    case Kind::no_recording:
      return Consequence::next_model;
    case Kind::cancelled:
    case Kind::over_budget:
    case Kind::gave_up:
    case Kind::not_recorded:
      break;
  }
  return Consequence::give_up;
}

double hold_time(const RetryRule& rule, int holds, const ChatError& error, RandomStream& stream) {
  // Credit comes back when somebody pays: there is no hurry.
  if (error.kind == Kind::out_of_credit)
    return std::max(backoff(15.0 * rule.first_wait_s, 600.0, holds, stream), asked_wait(error).value_or(0.0));
  if (const auto asked = asked_wait(error)) return *asked * (1.0 + 0.05 * uniform(stream));
  return backoff(rule.first_wait_s, rule.longest_wait_s, holds, stream);
}

}  // namespace cultivar
