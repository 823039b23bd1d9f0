// SPDX-License-Identifier: Apache-2.0
// The threads of one copy of a cell, observed from outside through /proc. All threads start before candidate
// code is loaded and no more can be created, so they are listed once.
#pragma once

#include <memory>
#include <vector>

namespace cultivar {

class CellThreads {  // not thread-safe
 public:
  CellThreads() = default;
  explicit CellThreads(int pid);
  // True when no thread runs or waits for a core, a page or a lock of the system's.
  bool asleep() const;

 private:
  class Descriptor;
  std::vector<std::shared_ptr<const Descriptor>> states_;
};

}  // namespace cultivar
