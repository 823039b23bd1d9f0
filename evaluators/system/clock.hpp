// Time: durations and deadlines by a clock that only goes forward, and the time of day for records.
#pragma once

#include <chrono>

namespace cultivar {

using Clock = std::chrono::steady_clock;

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
