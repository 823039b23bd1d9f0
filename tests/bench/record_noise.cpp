// SPDX-License-Identifier: Apache-2.0
// bench-record-noise: records how long the same work takes, again and again, for bench-gate-effects. Two
// threads, each pinned to its core, run loops of calibrated length at the same time; a time ends when both
// have finished. Needs nothing but the standard library, so it can be compiled where Cultivar is not built:
//   g++ -O2 -std=c++20 -pthread tests/bench/record_noise.cpp
//
//   bench-record-noise LOAD SECONDS FIRST_CORE > noise.jsonl
//     LOAD        busy processes that share the two cores
//     SECONDS     of recording for the longest work; the shorter ones take 10 s each at most
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void pin(int first, int count) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int i = 0; i < count; ++i) CPU_SET(first + i, &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0) std::perror("sched_setaffinity");
}

// A chain of dependent multiply-adds; volatile ends keep the compiler from moving it past the clock.
void work(std::int64_t rounds) {
  static thread_local volatile double ends = 1.0;
  double x = ends;
  for (std::int64_t i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
  ends = x;
}

double rounds_per_second() {
  double best = 0.0;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    work(2'000'000);
    best = std::max(best, 2e6 / seconds_since(start));
  }
  return best;
}

class Pair {
 public:
  explicit Pair(int core)
      : gate_(2), other_([this, core] {
          pin(core, 1);
          while (true) {
            gate_.arrive_and_wait();
            if (rounds_ < 0) return;
            work(rounds_);
            gate_.arrive_and_wait();
          }
        }) {}
  ~Pair() {
    rounds_ = -1;
    gate_.arrive_and_wait();
    other_.join();
  }
  double time(std::int64_t rounds) {
    rounds_ = rounds;
    const auto start = Clock::now();
    gate_.arrive_and_wait();
    work(rounds);
    gate_.arrive_and_wait();
    return seconds_since(start);
  }

 private:
  std::barrier<> gate_;
  std::int64_t rounds_ = 0;
  std::thread other_;
};

void record(Pair& pair, int load, double speed, double work_s, double limit_s, int most) {
  const auto rounds = static_cast<std::int64_t>(work_s * speed);
  std::printf("{\"load\": %d, \"work_us\": %.0f, \"us\": [", load, 1e6 * work_s);
  const auto start = Clock::now();
  for (int i = 0; i < most && seconds_since(start) < limit_s; ++i) {
    std::printf("%s%.4g", i > 0 ? ", " : "", 1e6 * pair.time(rounds));
    usleep(500);  // as between two runs of a duel
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int load = argc > 1 ? std::atoi(argv[1]) : 0;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 60.0;
  const int core = argc > 3 ? std::atoi(argv[3]) : 0;
  pin(core, 1);
  const double speed = rounds_per_second();
  std::vector<pid_t> busy;
  for (int i = 0; i < load; ++i) {
    const pid_t child = fork();
    if (child != 0) {
      busy.push_back(child);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(core, 2);
    while (true) work(1'000'000);
  }
  Pair pair(core + 1);
  record(pair, load, speed, 1e-5, 10.0, 4000);
  record(pair, load, speed, 1e-3, 20.0, 4000);
  record(pair, load, speed, 0.05, seconds, 6000);
  for (const pid_t child : busy) kill(child, SIGKILL);
  return 0;
}
