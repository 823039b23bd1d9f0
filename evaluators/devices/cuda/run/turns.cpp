// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/turns.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar::cuda {
namespace {

// When a process ends, its files are closed in order: the lock must close after the driver's files.
constexpr int kLastDescriptor = 512;
constexpr auto kPoll = std::chrono::microseconds(20);  // a turn lasts some milliseconds
constexpr unsigned long kTimerSlackNs = 2000;          // so that a poll takes about as long as requested
constexpr auto kSign = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::minutes(5);

int opened(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw MissingError(fmt::format(
        "{}: {} (workers that share a GPU take turns by locking this file; make the cache folder writable)",
        file.string(), std::strerror(errno)));
  const int last = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kLastDescriptor);
  if (last < 0) return descriptor;  // the descriptor limit is low: keep the given order
  ::close(descriptor);
  return last;
}

bool locked(int descriptor, int how, const std::filesystem::path& file) {
  if (::flock(descriptor, how | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK && errno != EINTR)
    throw std::runtime_error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  return false;
}

}  // namespace

Turns::Turns(const std::filesystem::path& file) : file_(file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  descriptor_ = opened(file);
  first_descriptor_ = opened(file.string() + "-first");
}

Turns::~Turns() {
  ::close(first_descriptor_);
  if (!kept_) ::close(descriptor_);
}

// A process with priority holds the lock of the first file until it gets its turn; others check whether it is
// held.
bool Turns::try_take() {
  if (ahead_) {
    first_ = first_ || locked(first_descriptor_, LOCK_EX, file_);
  } else {
    if (!locked(first_descriptor_, LOCK_SH, file_)) return false;
    ::flock(first_descriptor_, LOCK_UN);
  }
  return locked(descriptor_, LOCK_EX, file_);
}

void Turns::let_go() noexcept {
  if (std::exchange(first_, false)) ::flock(first_descriptor_, LOCK_UN);
}

Turns::Turn Turns::take() {
  const std::shared_ptr<void> with_the_turn_or_without_it(nullptr, [this](void*) { let_go(); });
  if (!failed_.empty()) throw std::runtime_error(failed_);
  if (depth_ == 0 && !kept_ && !try_take()) {
    ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
    const Clock::time_point began = Clock::now();
    Clock::time_point sign = began + kSign;
    while (!try_take()) {
      const Clock::time_point now = Clock::now();
      if (now - began > kPatience)
        throw std::runtime_error(fmt::format(
            "another Cultivar worker, which holds {}, used the GPU for five minutes; find it with `fuser -v "
            "{}`",
            file_.string(), file_.string()));
      if (now > sign) {
        waiting_();
        sign = now + kSign;
      }
      std::this_thread::sleep_for(kPoll);
    }
  }
  ++depth_;
  return Turn(*this);
}

std::optional<Turns::Turn> Turns::take_or_not() noexcept {
  try {
    return take();
  } catch (const std::exception& e) {
    failed_ = e.what();
  } catch (...) {
    failed_ = "could not get a turn on the GPU";
  }
  return std::nullopt;
}

void Turns::give() {
  if (--depth_ == 0 && !kept_) ::flock(descriptor_, LOCK_UN);
}

}  // namespace cultivar::cuda
