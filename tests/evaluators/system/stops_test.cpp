// SPDX-License-Identifier: Apache-2.0

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include "evaluators/system/clock.hpp"

namespace cultivar {
namespace {

constexpr std::int64_t second = 1'000'000'000;

BOOST_AUTO_TEST_SUITE(stops)

BOOST_AUTO_TEST_CASE(without_ticks_all_time_counts) {
  const Stops none;
  BOOST_TEST(none.running(5 * second) == 5 * second);
  BOOST_TEST(none.running(500 * second) == 500 * second);
}

BOOST_AUTO_TEST_CASE(time_without_ticks_counts_only_as_far_as_a_busy_machine_may_delay_one) {
  Stops stops;
  stops.tick(10 * second);
  BOOST_TEST(stops.running(11 * second) == 11 * second);
  // Stopped for four minutes, and read before and after the first tick that follows.
  BOOST_TEST(stops.running(250 * second) == 10 * second + Stops::most_ns);
  stops.tick(250 * second);
  BOOST_TEST(stops.running(250 * second) == 10 * second + Stops::most_ns);
  BOOST_TEST(stops.running(251 * second) == 11 * second + Stops::most_ns);
  // A second stop.
  stops.tick(350 * second);
  BOOST_TEST(stops.running(350 * second) == 10 * second + 2 * Stops::most_ns);
  // A late tick of a busy machine takes nothing away.
  stops.tick(350 * second + Stops::most_ns);
  BOOST_TEST(stops.running(350 * second + Stops::most_ns) == 10 * second + 3 * Stops::most_ns);
}

BOOST_AUTO_TEST_CASE(the_clock_never_goes_back) {
  Stops stops;
  stops.tick(second);
  std::int64_t before = 0;
  for (std::int64_t now = second; now < 30 * second; now += second / 8) {
    if (now > 20 * second && now % second == 0) stops.tick(now);
    const std::int64_t running = stops.running(now);
    BOOST_TEST(running >= before);
    before = running;
  }
}

BOOST_AUTO_TEST_CASE(after_a_fork_all_time_counts_again) {
  Stops stops;
  stops.tick(second);
  stops.tick(100 * second);
  const std::int64_t at = stops.running(100 * second);
  stops.end_ticks();
  BOOST_TEST(stops.running(300 * second) == at + 200 * second);
}

// A process that notices its stops is stopped for longer than a deadline of three seconds.
BOOST_AUTO_TEST_CASE(no_deadline_passes_while_the_process_is_stopped) {
  const pid_t child = ::fork();
  if (child == 0) {
    notice_stops();
    const Clock::time_point deadline = deadline_in(Stops::most_ns * 1e-9 + 1.0);
    const double before = stopped_s();
    ::raise(SIGSTOP);
    const double stopped = stopped_s() - before;
    ::_exit(Clock::now() < deadline && stopped > 1.0 ? 0 : 1);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  BOOST_REQUIRE(WIFSTOPPED(status));
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * Stops::most_ns));
  ::kill(child, SIGCONT);
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace cultivar
