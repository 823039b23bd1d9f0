// SPDX-License-Identifier: Apache-2.0
#include "evaluators/contenders/watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace cultivar {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
constexpr std::int64_t kSuspendedNs = 2'000'000'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Watchdog::Watchdog(std::string who) : who_(std::move(who)), thread_([this] { look(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ending_.notify_one();
  thread_.join();
}

void Watchdog::watch(const char* call, double seconds) {
  call_ = call;
  limit_s_ = seconds;
  due_ns_ = now_ns() + static_cast<std::int64_t>(1e9 * seconds);
}

void Watchdog::look() {
  std::unique_lock lock(mutex_);
  std::int64_t last = now_ns();
  while (!ending_.wait_for(lock, kBetweenLooks, [this] { return end_; })) {
    const std::int64_t now = now_ns(), since = now - last;
    last = now;
    std::int64_t due = due_ns_;
    if (due == 0 || now < due) continue;
    // Do not count time during which the process was stopped or got no CPU time.
    if (since > kSuspendedNs) {
      due_ns_.compare_exchange_strong(due, due + since);
      continue;
    }
    fmt::print(stderr, "{} did not return from {} within {:g} s\n", who_, call_.load(), limit_s_.load());
    std::fflush(stderr);
    ::_exit(exit_overdue);
  }
}

}  // namespace cultivar
