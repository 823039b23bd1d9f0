// SPDX-License-Identifier: Apache-2.0
// The turns of a conversation's calls on the device, and its device time.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "evaluators/system/clock.hpp"
#include "operators/agent/bench.hpp"
#include "operators/edits/edits.hpp"

namespace cultivar {

// Grants the device to one call at a time, in order of arrival. The session's budget counts the wall time of
// each turn, unless the bench meters device time (Bench::device_seconds).
class DeviceTurns {
 public:
  DeviceTurns(const Bench& bench, double limit_s) : bench_(bench), limit_s_(limit_s) {}

  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : turns_(std::exchange(other.turns_, nullptr)), begun_(other.begun_), metered_(other.metered_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    double seconds() const;

   private:
    friend class DeviceTurns;
    explicit Turn(DeviceTurns* turns)
        : turns_(turns), begun_(Clock::now()), metered_(turns->bench_.device_seconds().value_or(0.0)) {}
    DeviceTurns* turns_;
    Clock::time_point begun_;
    double metered_;  // the bench's meter at the start
  };
  // Waits for the device. Refused if the watch is over first, or if the budget is exhausted. The watch's
  // deadline is shortened to the remaining budget.
  tl::expected<Turn, EditRefusal> take(Watch&);
  double used() const;
  double limit() const { return limit_s_; }
  void restore(double used_s);  // used in an earlier session

 private:
  const Bench& bench_;
  mutable std::mutex mutex_;
  std::condition_variable_any free_;
  const double limit_s_;
  double used_s_ = 0.0;
  std::deque<std::uint64_t> queue_;  // tickets; the front one has the device
  std::uint64_t tickets_ = 0;
};

}  // namespace cultivar
