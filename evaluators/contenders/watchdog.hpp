// SPDX-License-Identifier: Apache-2.0
// Ends this process when a trusted call exceeds its time limit, because a call that does not return cannot be
// stopped in any other way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cultivar {

inline constexpr int exit_overdue = 75;  // exit code of the process in that case

// A thread that checks a few times per second, so that watching wakes no thread while something is timed.
// watch() and done() must be called by one thread at a time.
class Watchdog {
 public:
  explicit Watchdog(std::string who);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  // Starts and ends a watched call. If it exceeds the limit (plus one check interval), "WHO did not return
  // from CALL within ..." is written to stderr and the process ends.
  void watch(const char* call, double seconds);
  void done() { due_ns_.store(0); }

 private:
  void look();
  std::string who_;
  std::atomic<const char*> call_ = "";
  std::atomic<double> limit_s_ = 0.0;
  std::atomic<std::int64_t> due_ns_ = 0;  // on the steady clock; 0 if nothing is watched
  std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::thread thread_;  // declared last because it uses the members above
};

}  // namespace cultivar
