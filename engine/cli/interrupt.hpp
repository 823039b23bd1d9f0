// SPDX-License-Identifier: Apache-2.0
// Interruption by Ctrl-C, a closed terminal or a batch system.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace cultivar {

// After the first call, SIGINT, SIGTERM and SIGHUP set this flag instead of ending the program. Another one
// more than a second later ends it at once with exit code 130: the record is safe, work in flight is lost. A
// SIGHUP that was ignored at the start (nohup) stays ignored.
const std::atomic<bool>& interrupted();

// Counts the SIGUSR1 that arrived, which end nothing; for Runtime::checkpoints_wanted.
const std::atomic<int>& checkpoints_wanted();

// Calls `act` once, from its own thread, when the flag is set; for work that blocks elsewhere.
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
