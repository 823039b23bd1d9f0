// One process writes a run. The lock goes with the process however it ends, so there are no stale locks.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/run_folder.hpp"
#include "evaluators/error.hpp"

namespace cultivar {

class RunLock {
 public:
  // An Error names the process that holds it.
  static Expected<RunLock> take(const RunFolder&);
  // The process that holds the lock now; nobody: nullopt. Takes nothing.
  static std::optional<int> holder(const RunFolder&);

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar
