// The threads of a cell, watched from outside through /proc. A cell's threads are all started before
// candidate code is loaded and can never become more, so they are listed once.
#pragma once

#include <memory>
#include <vector>

namespace cultivar {

class CellThreads {  // not thread-safe
 public:
  CellThreads() = default;
  explicit CellThreads(int pid);
  // No thread runs or waits for a core. What the scheduler has booked on the cell's CPU clock is then
  // complete; while a thread runs, it lags by up to a tick.
  bool asleep() const;

 private:
  class Descriptor;
  std::vector<std::shared_ptr<const Descriptor>> states_;
};

}  // namespace cultivar
