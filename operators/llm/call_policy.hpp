// SPDX-License-Identifier: Apache-2.0
// When a call to a model may be made, and when it is made again. Whoever asks passes the time.
#pragma once

#include "evaluators/system/random.hpp"
#include "operators/llm/chat.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// Upper limit for a wait that a server requests (Retry-After).
inline constexpr double kLongestAskedWaitS = 3600.0;

// The wait before attempt `failures` + 1: first_wait * 2^(failures - 1), at most longest_wait, with the upper
// half random, so that calls that failed together are not retried together. At least what the server
// requested, up to kLongestAskedWaitS.
double wait_before_retry(const RetryRule&, int failures, const ChatError&, RandomStream&);

// The consequence of a failure for the call and for its model.
enum class Consequence {
  retry,       // uses an attempt; the next may succeed
  hold,        // 402, 429, unwritable: uses no attempt; the model is on hold for a while
  next_model,  // only another model may succeed: auth, too_large, bad_request, refused
  give_up      // cancelled, over_budget
};
Consequence consequence_of(ChatError::Kind);

// How long a model is on hold. `holds`: number of holds in a row.
double hold_time(const RetryRule&, int holds, const ChatError&, RandomStream&);

// A circuit breaker: a model that fails repeatedly is not used for a while, then tried with a single call,
// and used again when that succeeds. The caller passes the time, in seconds.
// Not thread-safe.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(const RetryRule& rule)
      : failures_to_open_(rule.breaker_failures),
        first_rest_s_(rule.breaker_rest_s),
        rest_s_(rule.breaker_rest_s) {}

  enum class State { closed, open, trying };  // trying: half-open; one call at a time tests the model
  State state(double now) const;
  // The earliest time for a call; infinity while another call is the test.
  double ready_at(double now) const;
  void begin(double now);   // a call starts, as the test if one is due
  void succeeded();         // the model answered or refused a call
  void failed(double now);  // a call failed
  void undecided();         // the call was canceled or put on hold: no information

 private:
  int failures_to_open_;
  double first_rest_s_, rest_s_;
  int failures_ = 0;  // in a row
  bool open_ = false, trial_ = false;
  double open_until_ = 0.0;
};

// Enforces a provider's limits per minute on the client side: requests, input tokens, output tokens. The
// caller passes the time, in seconds.

// A token bucket that refills evenly, holds the amount for one minute, and starts full. A larger amount is
// allowed when the bucket is full.
class TokenBucket {
 public:
  TokenBucket(double per_minute, double now) : rate_(per_minute / 60.0), level_(per_minute), at_(now) {}
  double ready_at(double amount, double now) const;  // the earliest time to take `amount`
  void take(double amount, double now);              // the balance may become negative
  void give_back(double amount, double now) { take(-amount, now); }

 private:
  double level_at(double now) const;
  double rate_, level_, at_;
};

// Not thread-safe.
class RateLimits {
 public:
  RateLimits(const RateLimit&, double now);
  // Until a call ends, its maximum output counts, as providers count it.
  double ready_at(const Usage& expected, double now) const;
  void begin(const Usage& expected, double now);
  void end(const Usage& expected, const Usage& used, double now);

 private:
  TokenBucket requests_, input_, output_;
  bool limits_requests_, limits_input_, limits_output_;
};

}  // namespace cultivar
