// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/interrupt.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace cultivar {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> wanted{0};
static_assert(std::atomic<int>::is_always_lock_free);

// `timeout` and batch systems send the same request to the process and to its group.
constexpr std::int64_t kSameRequestMs = 1000;
std::atomic<std::int64_t> first_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

void on_signal(int) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  std::int64_t first = 0;
  if (!first_ms.compare_exchange_strong(first, ms) && ms - first > kSameRequestMs) ::_exit(130);
  flag = true;
}

void listen() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
  struct sigaction before {};
  if (::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    ::sigaction(SIGHUP, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond a limit of file sizes fails, as on a full disk
}

}  // namespace

const std::atomic<bool>& interrupted() {
  static const bool listening = (listen(), true);
  (void)listening;
  return flag;
}

const std::atomic<int>& checkpoints_wanted() {
  static const bool listening = [] {
    struct sigaction action {};
    action.sa_handler = [](int) { ++wanted; };
    action.sa_flags = SA_RESTART;
    return ::sigaction(SIGUSR1, &action, nullptr) == 0;
  }();
  (void)listening;
  return wanted;
}

WhenInterrupted::WhenInterrupted(std::function<void()> act)
    : watcher_([this, act = std::move(act), &stop = interrupted()] {
        while (!over_ && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (!over_) act();
      }) {}

WhenInterrupted::~WhenInterrupted() {
  over_ = true;
  watcher_.join();
}

}  // namespace cultivar
