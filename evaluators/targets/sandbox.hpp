// Bubblewrap around compilers and cells: no network, no home, a read-only /usr and only what is named
// besides.
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
  // Probes once whether namespaces can be made here (a container may forbid them).
  Sandbox();
  // As on a machine without bubblewrap.
  static Sandbox none(std::string obstacle);
  bool usable() const { return !program_.empty(); }
  // Why not, in words; empty when usable.
  const std::string& obstacle() const { return obstacle_; }

  // What to put before a program's path and arguments. Everything of `flags` is passed on as it is.
  // Empty when not usable: the program then runs without, and the caller says so.
  std::vector<std::string> command(const std::vector<SandboxMount>&,
                                   const std::vector<std::string>& flags = {}) const;

 private:
  explicit Sandbox(std::string obstacle) : obstacle_(std::move(obstacle)) {}
  std::string program_, obstacle_;
};

}  // namespace cultivar
