// SPDX-License-Identifier: Apache-2.0
// Runs compilers and cells inside bubblewrap: no network, no home folder, a read-only /usr and the named
// mounts only. Where bubblewrap cannot work, they run without the powers of root and behind file access
// rules; README.md of this folder compares the two.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/process.hpp"

namespace cultivar {

// The largest file that a compiler may write. Kernels have kilobytes; the most are temporary files of large
// templates.
inline constexpr std::size_t most_output_bytes = std::size_t{32} << 20;

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

  // What a process outside bubblewrap gives up: all that root may do; and root itself if this process can end
  // processes of another user, and that user can read all of `needed`. For another user, `own` (if not empty)
  // becomes the owner of this folder and all in it.
  Privileges privileges_outside(const std::vector<std::filesystem::path>& needed,
                                const std::filesystem::path& own = {}) const;
  // One phrase for isolation().
  std::string outside_in_words() const;

  // The arguments to put before a program's path and arguments. `flags` is passed on unchanged. Empty when
  // not usable: the program then runs outside bubblewrap, and the caller reports that.
  std::vector<std::string> command(const std::vector<SandboxMount>&,
                                   const std::vector<std::string>& flags = {}) const;

 private:
  explicit Sandbox(std::string obstacle) : obstacle_(std::move(obstacle)) { find_other_user(); }
  void find_other_user();
  std::string program_, obstacle_;
  bool has_other_user_ = false;
};

// Programs of Cultivar's in Python, which run code of a user.

// Python files of Cultivar's, by their path in a package, such as "cultivar_reference/modes.py".
using PythonFiles = std::vector<std::pair<std::string, std::string_view>>;
// Writes them below `cache` unless they are there; the folder to put in PYTHONPATH.
Expected<std::filesystem::path> place_python_files(const PythonFiles&, const std::filesystem::path& cache);

// Starts `python -m MODULE ARGUMENTS` in a sandbox: no network, a read-only system, `readable` and `writable`
// at their own paths. `options` keeps what the caller sets (pipes, descriptors, limits).
struct PythonProgram {
  std::string module;
  std::vector<std::string> arguments = {};
  std::filesystem::path sources;                     // place_python_files
  std::vector<std::filesystem::path> readable = {};  // files and folders
  std::vector<std::filesystem::path> writable = {};
  double memory_share = 0.8;  // of the machine's memory limit; with a card it is not limited
  // May use the machine's GPU. Without bubblewrap it is then not confined, as a contender in Python is not.
  bool card = false;
};
Expected<ChildProcess> start_python(const Interpreter&, const PythonProgram&, ProcessOptions options);

}  // namespace cultivar
