// A model that fails again and again is left alone, tried with a single call after a while, and used again
// when that succeeds. Time is the caller's, in seconds.
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

  enum class State { closed, open, trying };  // trying: rested; one call at a time shows whether it works
  State state(double now) const;
  // The time from which a call may begin; infinity: another call is the trial.
  double ready_at(double now) const;
  void begin(double now);   // a call begins; as the trial, when it is time for one
  void succeeded();         // a call of this model was answered, well or with a refusal of its own
  void failed(double now);  // it did not work
  void undecided();         // the call was cancelled or held: neither

 private:
  int failures_to_open_;
  double first_rest_s_, rest_s_;
  int failures_ = 0;  // in a row
  bool open_ = false, trial_ = false;
  double open_until_ = 0.0;
};

}  // namespace cultivar
