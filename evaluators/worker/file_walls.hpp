// Which files a child process may open, enforced by the kernel (Landlock) without root and without
// namespaces: what is left where bubblewrap cannot run, as in most containers.
#pragma once

#include <filesystem>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

class FileWalls {
 public:
  // Everything below these; the rest of the file system is out of reach. Paths that do not exist are passed
  // over. An Error says why this machine has no such walls.
  static Expected<FileWalls> make(const std::vector<std::filesystem::path>& readable,
                                  const std::vector<std::filesystem::path>& writable);
  FileWalls(FileWalls&&) noexcept;
  FileWalls& operator=(FileWalls&&) noexcept;
  ~FileWalls();

  // Between fork and exec. Allocates nothing; false: errno tells.
  bool enclose_this_process() const;

 private:
  explicit FileWalls(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar
