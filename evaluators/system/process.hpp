// SPDX-License-Identifier: Apache-2.0
// A child process that cannot outlive, block or flood its parent: separate process group, all descriptors
// close-on-exec, stderr drained into a bounded buffer, killed as a group, and killed by the kernel when the
// parent dies.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/privileges.hpp"

namespace cultivar {

struct ProcessOptions {
  std::vector<std::string> command =
      {};                             // launcher, program and arguments; the first is searched for in PATH
  std::filesystem::path folder = {};  // working folder; empty: same as the parent's
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; nullopt: same as the parent's
  bool pipe_input = true;                                    // otherwise /dev/null
  bool pipe_output = true;                // otherwise stdout is captured together with stderr
  std::size_t captured_bytes = 64 << 10;  // limit for stderr; the first and the last half are kept
  std::vector<std::pair<int, std::size_t>> limits = {};  // RLIMIT_* -> soft and hard limit
  std::vector<int> descriptors = {};       // become 3, 4, 5, ... in the child; still owned by the caller
  const FileAccessRules* walls = nullptr;  // file access restrictions of the child; null: none
  Privileges privileges = Privileges::kept;
  bool expendable = false;  // the first to be ended when the machine runs out of memory
  // Put a guardian in between: everything that the child starts ends with the child and with this process.
  bool guarded = false;
  // With a guardian: before all is killed, the child gets SIGTERM and this time to end what it started
  // elsewhere.
  double goodbye_s = 0.0;
};

struct ExitStatus {
  int code = 0;    // if not killed by a signal
  int signal = 0;  // 0 if it exited by itself
  double user_s = 0.0, system_s = 0.0;
  std::size_t peak_bytes = 0;
  bool success() const { return signal == 0 && code == 0; }
  std::string describe() const;  // "exited with 3", "killed by SIGSEGV"
};

// kill() may be called from any thread; all other functions by one thread at a time.
class ChildProcess {
 public:
  // An Error names the program that could not be started and the reason.
  static Expected<ChildProcess> spawn(const ProcessOptions&);
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ~ChildProcess();  // kills the group and reaps

  int pid() const;
  int input() const;   // the parent's end of the child's stdin; -1 if not piped
  int output() const;  // the parent's end of the child's stdout
  void close_input();

  // nullptr while it is running.
  const ExitStatus* poll() const;
  const ExitStatus* wait(Clock::time_point deadline) const;
  void kill();  // sends SIGKILL to the whole group, and to all descendants if guarded; idempotent
  // Waits, then kills whatever is left; true if the child ended by itself in time.
  bool wait_or_kill(Clock::time_point deadline);
  // What the child wrote to stderr (and stdout if not piped); the middle is omitted if it is too long.
  std::string captured() const;

 private:
  struct State;
  explicit ChildProcess(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

// The path of the program for execve; empty if PATH does not contain it.
std::filesystem::path find_program(const std::string& name);
// For example "SIGSEGV".
std::string signal_name(int number);

// True for signals that end a process and that nothing it did raises, for example those of a batch system
// that ends a job. The sandbox lets no variant send a signal.
bool sent_from_outside(int signal);

}  // namespace cultivar
