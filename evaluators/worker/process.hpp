// A child process that cannot outlive, block or flood its parent: own process group, every descriptor
// close-on-exec, stderr drained into a bounded buffer, killed as a group, and killed by the kernel when the
// parent dies.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/error.hpp"
#include "evaluators/worker/file_walls.hpp"

namespace cultivar {

using Clock = std::chrono::steady_clock;
inline Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct ProcessOptions {
  std::vector<std::string> command =
      {};                             // launcher and program and arguments; the first is looked up in PATH
  std::filesystem::path folder = {};  // working folder; empty: the parent's
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; nullopt: the parent's
  bool pipe_input = true;                                    // else /dev/null
  bool pipe_output = true;                                   // else stdout is captured together with stderr
  std::size_t captured_bytes = 64 << 10;                 // of stderr: its first and its last half are kept
  std::vector<std::pair<int, std::size_t>> limits = {};  // RLIMIT_* -> soft and hard limit
  std::vector<int> descriptors = {};  // become 3, 4, 5, ... in the child; stay the caller's
  const FileWalls* walls = nullptr;   // around the child; null: none
  // A guardian stands between: all that the child has started dies with it, and with us, wherever it hid.
  bool guarded = false;
};

struct ExitStatus {
  int code = 0;    // when not signalled
  int signal = 0;  // 0: it exited by itself
  double user_s = 0.0, system_s = 0.0;
  std::size_t peak_bytes = 0;
  bool success() const { return signal == 0 && code == 0; }
  std::string describe() const;  // "exited with 3", "killed by SIGSEGV"
};

// kill() may be called from any thread; everything else by one thread at a time.
class ChildProcess {
 public:
  // An Error says which program could not be started and why.
  static Expected<ChildProcess> spawn(const ProcessOptions&);
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ~ChildProcess();  // kills the group and reaps

  int pid() const;
  int input() const;   // the parent's end of the child's stdin; -1 when not piped
  int output() const;  // the parent's end of its stdout
  void close_input();

  // nullptr: still running.
  const ExitStatus* poll() const;
  const ExitStatus* wait(Clock::time_point deadline) const;
  void kill();  // SIGKILL to the whole group, and to all below it when guarded; idempotent
  // wait, then kill whatever is left; true when it ended by itself in time.
  bool wait_or_kill(Clock::time_point deadline);
  // What it wrote to stderr (and stdout when not piped), the middle left out when that was too much.
  std::string captured() const;

 private:
  struct State;
  explicit ChildProcess(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

// The program as execve wants it; empty when PATH has none.
std::filesystem::path find_program(const std::string& name);
// "SIGSEGV"
std::string signal_name(int number);

}  // namespace cultivar
