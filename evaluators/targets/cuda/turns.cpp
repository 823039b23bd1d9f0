#include "evaluators/targets/cuda/turns.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "evaluators/error.hpp"

namespace cultivar::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Files of a process that ends are closed in order: the lock after whatever the driver has open.
constexpr int kLastDescriptor = 512;
constexpr auto kPoll = std::chrono::microseconds(20);  // a turn is some milliseconds
constexpr unsigned long kTimerSlackNs = 2000;          // so that a poll takes as long as it says
constexpr auto kSign = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::minutes(5);

}  // namespace

Turns::Turns(const std::filesystem::path& file) : file_(file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (opened < 0)
    throw MissingError(
        fmt::format("{}: {} (workers that share a GPU take turns by this file: the cache must be writable)",
                    file.string(), std::strerror(errno)));
  descriptor_ = ::fcntl(opened, F_DUPFD_CLOEXEC, kLastDescriptor);
  if (descriptor_ < 0)
    descriptor_ = opened;  // a process of few files: the order is then as it comes
  else
    ::close(opened);
}

Turns::~Turns() {
  if (!kept_) ::close(descriptor_);
}

Turns::Turn Turns::take() {
  if (!failed_.empty()) throw std::runtime_error(failed_);
  if (depth_ == 0 && !kept_ && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
    const Clock::time_point began = Clock::now();
    Clock::time_point sign = began + kSign;
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        throw std::runtime_error(fmt::format("{}: {}", file_.string(), std::strerror(errno)));
      const Clock::time_point now = Clock::now();
      if (now - began > kPatience)
        throw std::runtime_error(fmt::format(
            "the GPU was busy for five minutes with another worker of Cultivar, which holds {}; `fuser -v "
            "{}` tells which",
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
    failed_ = "no turn at the GPU could be had";
  }
  return std::nullopt;
}

void Turns::give() {
  if (--depth_ == 0 && !kept_) ::flock(descriptor_, LOCK_UN);
}

}  // namespace cultivar::cuda
