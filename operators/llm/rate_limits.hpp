// A provider's limits for a minute, kept from this side: requests, input tokens, output tokens. Time is the
// caller's, in seconds.
#pragma once

#include "operators/llm/model_config.hpp"

namespace cultivar {

// Fills evenly, holds one minute's worth, starts full. What is larger than all of it passes when it is full.
class TokenBucket {
 public:
  TokenBucket(double per_minute, double now) : rate_(per_minute / 60.0), level_(per_minute), at_(now) {}
  double ready_at(double amount, double now) const;  // the time from which `amount` may be taken
  void take(double amount, double now);              // may leave a debt
  void give_back(double amount, double now) { take(-amount, now); }

 private:
  double level_at(double now) const;
  double rate_, level_, at_;
};

// Not thread-safe.
class RateLimits {
 public:
  RateLimits(const RateLimit&, double now);
  // Output counts with all that was asked for until a call is over, as providers count it.
  double ready_at(const Usage& expected, double now) const;
  void begin(const Usage& expected, double now);
  void end(const Usage& expected, const Usage& used, double now);

 private:
  TokenBucket requests_, input_, output_;
  bool limits_requests_, limits_input_, limits_output_;
};

}  // namespace cultivar
