// SPDX-License-Identifier: Apache-2.0
// Time: durations and deadlines by a clock that only goes forward, and the time of day for records.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

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

// From the ticks of a process, how long it was stopped.
// One thread calls tick(), any number of others running(). Times are nanoseconds of a clock that goes on
// while the process is stopped.
class Stops {
 public:
  static constexpr std::int64_t tick_ns = 500'000'000;
  // A pause of its ticks counts up to here, since a busy machine delays them too.
  static constexpr std::int64_t most_ns = 2'000'000'000;

  void tick(std::int64_t now) {
    const std::int64_t last = last_.load(std::memory_order_relaxed);
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_relaxed);  // odd: readers wait
    std::atomic_thread_fence(std::memory_order_release);
    if (last != 0 && now - last > most_ns)
      stopped_.store(stopped_.load(std::memory_order_relaxed) + now - last - most_ns,
                     std::memory_order_relaxed);
    last_.store(now, std::memory_order_relaxed);
    round_.store(round + 2, std::memory_order_release);
  }

  // `now` without the time in which the process was stopped. Never goes back if `now` does not.
  std::int64_t running(std::int64_t now) const {
    std::int64_t last = 0, stopped = 0;
    for (;;) {
      const std::uint32_t round = round_.load(std::memory_order_acquire);
      last = last_.load(std::memory_order_relaxed);
      stopped = stopped_.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (round % 2 == 0 && round_.load(std::memory_order_relaxed) == round) break;
    }
    return (last != 0 && now - last > most_ns ? last + most_ns : now) - stopped;
  }

  // Until the next tick, every time counts: after a fork nobody ticks.
  void end_ticks() {
    last_.store(0, std::memory_order_relaxed);
    round_.store(0, std::memory_order_release);
  }

 private:
  std::atomic<std::uint32_t> round_ = 0;
  std::atomic<std::int64_t> last_ = 0, stopped_ = 0;
};

}  // namespace cultivar
