// Ends work that waits elsewhere, once, when a call is over.
#pragma once

#include <functional>
#include <thread>

#include "operators/agent/bench.hpp"

namespace cultivar {

// Calls `act` at most once, from a thread of its own, when the watch is over; not any more once this is
// destroyed. The watch must outlive it.
class Interruption {
 public:
  Interruption(const Watch& watch, std::function<void()> act);

 private:
  std::jthread waiter_;
};

}  // namespace cultivar
