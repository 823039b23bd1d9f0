// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/device_turns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/system/clock.hpp"

namespace cultivar {

DeviceTurns::Turn::~Turn() {
  if (turns_ == nullptr) return;
  {
    const std::lock_guard lock(turns_->mutex_);
    turns_->used_s_ += seconds();
    turns_->queue_.pop_front();
  }
  turns_->free_.notify_all();
}

double DeviceTurns::Turn::seconds() const {
  const auto metered = turns_->bench_.device_seconds();
  return metered ? *metered - metered_ : seconds_since(begun_);
}

void DeviceTurns::restore(double used_s) {
  const std::lock_guard lock(mutex_);
  used_s_ += used_s;
}

double DeviceTurns::used() const {
  const std::lock_guard lock(mutex_);
  return used_s_;
}

tl::expected<DeviceTurns::Turn, EditRefusal> DeviceTurns::take(Watch& watch) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = ++tickets_;
  queue_.push_back(ticket);
  const auto mine = [&] { return queue_.front() == ticket; };
  if (!mine()) {
    lock.unlock();
    watch.tell("waiting for the device: another call is using it");
    lock.lock();
  }
  const bool got = watch.deadline == Clock::time_point::max()
                       ? free_.wait(lock, watch.stop, mine)
                       : free_.wait_until(lock, watch.stop, watch.deadline, mine);
  const bool spent = limit_s_ > 0.0 && used_s_ >= limit_s_;
  if (!got || spent || watch.stop.stop_requested()) {
    queue_.erase(std::ranges::find(queue_, ticket));
    lock.unlock();
    free_.notify_all();
    if (spent)
      return tl::make_unexpected(EditRefusal{
          fmt::format("The device time of this session is exhausted: {:.0f} s of {:.0f} s. No kernel can be "
                      "run; tools that need no device still work.",
                      used(), limit_s_)});
    return tl::make_unexpected(
        EditRefusal{"Timed out: the device did not become free within this call's time limit."});
  }
  // If calls queue for the device, wall time includes waiting.
  if (limit_s_ > 0.0 && !bench_.device_seconds()) {
    const auto left = duration_of(limit_s_ - used_s_);
    watch.deadline = std::min(watch.deadline, Clock::now() + left);
  }
  return Turn(this);
}

}  // namespace cultivar
