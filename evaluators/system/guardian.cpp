// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

namespace cultivar {
namespace {

// Sends SIGKILL to every child. Orphaned descendants become children of the guardian, so a few rounds reach
// all.
void kill_children() {
  const int list = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (list < 0) return;
  char buffer[4096];
  pid_t number = 0;
  for (ssize_t got; (got = ::read(list, buffer, sizeof buffer)) > 0;)
    for (ssize_t i = 0; i < got; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        number = number * 10 + (buffer[i] - '0');
        continue;
      }
      if (number > 1) ::kill(number, SIGKILL);
      number = 0;
    }
  ::close(list);
}

// After a fork, the guardian has the search's command line, which `ps` and `pkill -f` match. Ending a search
// by name would then also end its guardians, and with them programs that should exit in good order, and would
// leave what they started. So give the guardian its own command line. Does not allocate.
void take_own_command_line() {
  constexpr std::string_view kName = "process-guard";
  const int stat = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (stat < 0) return;
  char buffer[2048];
  const ssize_t got = ::read(stat, buffer, sizeof buffer);
  ::close(stat);
  if (got <= 0) return;
  const std::string_view text(buffer, static_cast<std::size_t>(got));
  constexpr int kArgStart = 48, kArgEnd = 49;  // proc(5); the name, which ends at the last ')', is field 2
  std::uintptr_t begin = 0, end = 0;
  int field = 2;
  for (std::size_t at = text.rfind(')'); at < text.size(); ++at) {
    const char c = text[at];
    if (c == ' ') ++field;
    if (c < '0' || c > '9') continue;
    if (field == kArgStart) begin = begin * 10 + static_cast<std::uintptr_t>(c - '0');
    if (field == kArgEnd) end = end * 10 + static_cast<std::uintptr_t>(c - '0');
  }
  if (begin == 0 || end <= begin + kName.size()) return;
  char* const words = reinterpret_cast<char*>(begin);
  std::memset(words, 0, end - begin);
  std::memcpy(words, kName.data(), kName.size());
}

void end_all(pid_t program) {
  ::kill(-program, SIGKILL);  // kills its group directly, in case the list above is unavailable
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    kill_children();
    for (;;) {
      const pid_t over = ::waitpid(-1, nullptr, WNOHANG);
      if (over < 0) return;  // no child is left
      if (over == 0) break;
    }
    const timespec moment{0, 5'000'000};
    ::nanosleep(&moment, nullptr);
  }
}

// Asks the program, whose group it leads, to end, and waits for it.
void say_goodbye(pid_t program, double seconds) {
  ::kill(-program, SIGTERM);
  const timespec moment{0, 5'000'000};
  for (auto left = static_cast<int>(seconds / 5e-3); left > 0; --left) {
    if (::waitpid(program, nullptr, WNOHANG) != 0) return;
    ::nanosleep(&moment, nullptr);
  }
}

[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(WTERMSIG(status), &action, nullptr);
    sigset_t none;
    sigemptyset(&none);
    ::kill(::getpid(), WTERMSIG(status));
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

}  // namespace

[[noreturn]] void stand_guard(pid_t parent, pid_t (*start)(void*), void (*told)(void*), void* arg,
                              double goodbye_s) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above took effect
  ::prctl(PR_SET_NAME, "process-guard");
  take_own_command_line();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t program = start(arg);
  told(arg);
  if (program < 0) ::_exit(127);
  // Close all inherited descriptors: locks, databases, the program's own pipes.
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGCHLD);
  for (;;) {
    int status = 0;
    for (pid_t over; (over = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (over == program) {
        end_all(program);
        end_as(status);
      }
    if (::sigwaitinfo(&awaited, nullptr) == SIGTERM) {
      if (goodbye_s > 0) say_goodbye(program, goodbye_s);
      end_all(program);
      ::_exit(128 + SIGTERM);
    }
  }
}

}  // namespace cultivar
