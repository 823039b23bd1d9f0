// SPDX-License-Identifier: Apache-2.0
#include "engine/benches/interruption.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace cultivar {
namespace {

void wait_for_the_end(const std::stop_token& not_needed, const Watch& watch,
                      const std::function<void()>& act) {
  std::mutex mutex;
  std::condition_variable_any changed;
  const std::stop_callback wake(watch.stop, [&] {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  // A deadline of "never" exceeds the longest time that a clock can wait for.
  const auto until = std::min(watch.deadline, Clock::now() + std::chrono::hours(24 * 365));
  changed.wait_until(lock, not_needed, until, [&] { return watch.stop.stop_requested(); });
  lock.unlock();
  if (!not_needed.stop_requested() && watch.over()) act();
}

}  // namespace

Interruption::Interruption(const Watch& watch, std::function<void()> act)
    : waiter_([&watch, act = std::move(act)](const std::stop_token& not_needed) {
        wait_for_the_end(not_needed, watch, act);
      }) {}

}  // namespace cultivar
