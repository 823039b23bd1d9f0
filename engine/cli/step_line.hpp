// SPDX-License-Identifier: Apache-2.0
// Shows a slow step of a command on stderr with its elapsed time: a line that is redrawn on a terminal, a
// line at least every ten seconds elsewhere. A thread draws it, because the step itself may report nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "evaluators/system/clock.hpp"

namespace cultivar {

class StepLine {  // show() may be called from any thread
 public:
  explicit StepLine(std::string text);
  ~StepLine();  // clears the line
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;
  void show(std::string text);

 private:
  void draw();  // with mutex_ held
  void watch(const std::stop_token&);

  bool terminal_;
  Clock::time_point began_ = Clock::now(), last_ = began_;
  std::mutex mutex_;  // guards what follows
  std::string text_;
  std::condition_variable_any ending_;
  std::jthread watcher_;  // last member: joined before the others are destroyed
};

}  // namespace cultivar
