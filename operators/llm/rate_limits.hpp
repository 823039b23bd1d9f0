// SPDX-License-Identifier: Apache-2.0
// Enforces a provider's limits per minute on the client side: requests, input tokens, output tokens. The
// caller passes the time, in seconds.
#pragma once

#include "operators/llm/model_config.hpp"

namespace cultivar {

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
