// Runs compilers and cells inside bubblewrap: no network, no home folder, a read-only /usr and the named
// mounts only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cultivar {

struct SandboxMount {
  std::filesystem::path host, inside;
  bool writable = false;
};

struct Sandbox {
  // Checks once whether namespaces can be created here (a container may forbid them).
  Sandbox();
  // Behaves as on a machine without bubblewrap.
  static Sandbox none(std::string obstacle);
  bool usable() const { return !program_.empty(); }
  // Why bubblewrap cannot be used; empty when usable.
  const std::string& obstacle() const { return obstacle_; }

  // The arguments to put before a program's path and arguments. `flags` is passed on unchanged. Empty when
  // not usable: the program then runs outside bubblewrap, and the caller reports that.
  std::vector<std::string> command(const std::vector<SandboxMount>&,
                                   const std::vector<std::string>& flags = {}) const;

 private:
  explicit Sandbox(std::string obstacle) : obstacle_(std::move(obstacle)) {}
  std::string program_, obstacle_;
};

}  // namespace cultivar
