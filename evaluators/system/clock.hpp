// SPDX-License-Identifier: Apache-2.0
// Time: durations and deadlines by a clock that only goes forward, and the time of day for records.
#pragma once

#include <chrono>

namespace cultivar {

// While this process is stopped (SIGSTOP, a frozen container, a job that its scheduler suspends), this clock
// stands still, as the clock of a suspended machine does: no deadline passes for a reason that lies outside.
struct Clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock, duration>;
  static constexpr bool is_steady = true;
  static time_point now();
};

// How long this process or its machine has been stopped, from an arbitrary time on: only differences count.
double stopped_s();

// Each program has one for as long as it runs; without it, the clock does not notice that it was stopped.
// Starts a thread, which does not survive a fork.
void notice_stops();

inline double in_seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}
inline double seconds_since(Clock::time_point start) {
  return in_seconds(Clock::now() - start);
}
inline Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
inline Clock::time_point deadline_in(double seconds) {
  return Clock::now() + duration_of(seconds);
}

// Seconds since 1970.
inline double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace cultivar
