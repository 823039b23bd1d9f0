// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/clock.hpp"

#include <pthread.h>
#include <csignal>
#include <ctime>
#include <thread>

namespace cultivar {

namespace {

using Steady = std::chrono::steady_clock;

constinit Stops stops;

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Steady::now().time_since_epoch()).count();
}

}  // namespace

Clock::time_point Clock::now() {
  const std::chrono::nanoseconds running(stops.running(steady_ns()));
  return time_point(std::chrono::duration_cast<duration>(running));
}

double stopped_s() {
  timespec now{};  // this one goes on during a machine's sleep
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         in_seconds(Clock::now().time_since_epoch());
}

void notice_stops() {
  static const bool once = [] {
    ::pthread_atfork(nullptr, nullptr, [] { stops.end_ticks(); });
    stops.tick(steady_ns());
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread's; handlers run in the others
    std::thread([] {
      for (;;) {
        stops.tick(steady_ns());
        std::this_thread::sleep_for(std::chrono::nanoseconds(Stops::tick_ns));
      }
    }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return true;
  }();
  (void)once;
}

}  // namespace cultivar
