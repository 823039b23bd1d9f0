// Ends this process when something trusted takes longer than it may: what does not return can be stopped in
// no other way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cultivar {

inline constexpr int exit_overdue = 75;  // the process's exit code then

// A thread that looks a few times a second, so that watching wakes nobody while something is timed. watch()
// and done() by one thread at a time.
class Watchdog {
 public:
  explicit Watchdog(std::string who);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  // Between these two: if it lasts longer than this and a look, "WHO did not return from CALL within ..."
  // goes to stderr and the process ends.
  void watch(const char* call, double seconds);
  void done() { due_ns_.store(0); }

 private:
  void look();
  std::string who_;
  std::atomic<const char*> call_ = "";
  std::atomic<double> limit_s_ = 0.0;
  std::atomic<std::int64_t> due_ns_ = 0;  // of the steady clock; 0: nothing is watched
  std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cultivar
