// SPDX-License-Identifier: Apache-2.0
// Restricts which files a child process may open, enforced by the kernel (Landlock) without root and without
// namespaces. Used where bubblewrap cannot run, as in most containers.
#pragma once

#include <filesystem>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

class FileAccessRules {
 public:
  // Allows everything below these paths and nothing else. Paths that do not exist are skipped. An Error says
  // why this machine does not support it.
  static Expected<FileAccessRules> make(const std::vector<std::filesystem::path>& readable,
                                        const std::vector<std::filesystem::path>& writable);
  FileAccessRules(FileAccessRules&&) noexcept;
  FileAccessRules& operator=(FileAccessRules&&) noexcept;
  ~FileAccessRules();

  // Restricts the calling thread, and the threads and processes that it starts from now on. May be called
  // between fork and exec: allocates nothing; on failure returns false and sets errno.
  bool enclose_this_thread() const;

 private:
  explicit FileAccessRules(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar
