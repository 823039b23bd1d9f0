// Ctrl-C, and a terminal or a batch system that takes leave.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace cultivar {

// From the first call on SIGINT, SIGTERM and SIGHUP set this flag instead of ending the program. The second
// of them ends it at once, with 130: what is recorded is safe, what is in flight is lost.
const std::atomic<bool>& interrupted();

// Calls `act` once, from a thread of its own, when the flag is set; for work that waits elsewhere.
class WhenInterrupted {
 public:
  explicit WhenInterrupted(std::function<void()> act);
  ~WhenInterrupted();
  WhenInterrupted(const WhenInterrupted&) = delete;
  WhenInterrupted& operator=(const WhenInterrupted&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

}  // namespace cultivar
