// A slow step of a command, on stderr: a line that is rewritten on a terminal, and one at least every ten
// seconds elsewhere, each with the time that it has taken. A line of its own accord: what is waited for may
// have nothing to say.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cultivar {

class StepLine {  // show() may be called from any thread
 public:
  explicit StepLine(std::string text);
  ~StepLine();  // clears the line
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;
  void show(std::string text);

 private:
  using Clock = std::chrono::steady_clock;
  void draw();  // with mutex_ held
  void watch(const std::stop_token&);

  bool terminal_;
  Clock::time_point began_ = Clock::now(), last_ = began_;
  std::mutex mutex_;  // guards what follows
  std::string text_;
  std::condition_variable_any ending_;
  std::jthread watcher_;  // last: joined before the rest goes
};

}  // namespace cultivar
