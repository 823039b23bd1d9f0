// SPDX-License-Identifier: Apache-2.0
// Ends work that blocks elsewhere when a call is canceled or times out.
#pragma once

#include <functional>
#include <thread>

#include "operators/agent/bench.hpp"

namespace cultivar {

// Calls `act` at most once, from its own thread, when the watch is over; never after the destructor returned.
// The watch must outlive this object.
class Interruption {
 public:
  Interruption(const Watch& watch, std::function<void()> act);

 private:
  std::jthread waiter_;
};

}  // namespace cultivar
