// SPDX-License-Identifier: Apache-2.0
// A circuit breaker: a model that fails repeatedly is not used for a while, then tried with a single call,
// and used again when that succeeds. The caller passes the time, in seconds.
#pragma once

#include "operators/llm/model_config.hpp"

namespace cultivar {

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

}  // namespace cultivar
