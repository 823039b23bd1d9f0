// SPDX-License-Identifier: Apache-2.0
// Ensures that one process writes a run. The kernel releases the lock when the process ends, so there are no
// stale locks.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

class RunLock {
 public:
  // When it is held, the Error names the process.
  static Expected<RunLock> take(const RunFolder&);
  // The process that holds the lock now, or nullopt. Does not take the lock.
  static std::optional<int> holder(const RunFolder&);

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar
