// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/detached_search.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/search_log.hpp"
#include "engine/store/record.hpp"
#include "engine/store/run_lock.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

pid_t spawn(std::vector<std::string> arguments, const fs::path& log) {
  arguments.insert(arguments.begin(), called_as());
  arguments.insert(arguments.end(), {"--log", log.string()});
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    throw std::runtime_error(fmt::format("cannot start the search: {}", std::strerror(failed)));
  return pid;
}

// Whether the process has recorded anything since `start`.
bool has_begun(const RunFolder& folder, pid_t pid, double start) {
  if (RunLock::holder(folder) != std::optional<int>(pid)) return false;
  const auto record = Record::open(folder.path());
  if (!record) return false;
  const Summary now = summary_of(*record);
  return now.state == "running" && now.heartbeat_age_s && unix_now() - *now.heartbeat_age_s >= start;
}

}  // namespace

int start_detached(std::vector<std::string> arguments, const RunFolder& folder, const Output& output) {
  std::error_code failed;
  fs::create_directories(folder.path(), failed);
  if (failed) throw std::runtime_error(folder.path().string() + ": " + failed.message());
  const std::string place = as_typed(folder.path());
  const double start = unix_now();
  const Clock::time_point deadline = deadline_in(60.0);
  const pid_t pid = spawn(std::move(arguments), folder.log());
  const auto told = [&](const char* state) {
    output.facts({{"run", folder.path().string()},
                  {"process", pid},
                  {"state", state},
                  {"log", folder.log().string()}});
  };
  for (bool asked_to_stop = false;;) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      follow_log(
          folder.log(), 20, [](const std::string& line) { notify("{}\n", utf8_text(line)); },
          [] { return false; });
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      told(code == 0 ? "finished" : "failed");
      return code;
    }
    if (has_begun(folder, pid, start)) break;
    if (interrupted() && !std::exchange(asked_to_stop, true)) ::kill(pid, SIGTERM);
    if (!asked_to_stop && Clock::now() > deadline) {
      told("starting");
      output.line(fmt::format(
          "Process {0} still waits for its workers; `{1} status {2}` and `{1} attach {2}` show it.", pid,
          called_as(), place));
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  told("running");
  output.line(
      fmt::format("The search runs as process {0}, without a terminal. Its log is {1}.\n"
                  "  {3} attach {2}    follow it; Ctrl-C ends only this\n"
                  "  {3} status {2}    its state\n"
                  "  {3} stop {2}      stop it with a checkpoint",
                  pid, as_typed(folder.log()), place, called_as()));
  return 0;
}

std::optional<int> process_of(const RunFolder& folder) {
  const auto holder = RunLock::holder(folder);
  if (!holder) return std::nullopt;
  // The number was written by the holder, which may live on another machine; the open lock proves that it is
  // here.
  struct stat lock {};
  if (::stat(folder.lock().c_str(), &lock) == 0) {
    std::error_code failed;
    fs::directory_iterator at(fmt::format("/proc/{}/fd", *holder), failed);
    for (const fs::directory_iterator end; !failed && at != end; at.increment(failed)) {
      struct stat open {};
      if (::stat(at->path().c_str(), &open) == 0 && open.st_ino == lock.st_ino && open.st_dev == lock.st_dev)
        return holder;
    }
  }
  for (int i = 0; i < 100; ++i) {  // while a process ends, its open files are no longer seen
    if (!RunLock::holder(folder)) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw InputError(
      fmt::format("{} is in use by process {}, which is not a process of yours on this machine: stop the "
                  "search where it was started",
                  as_typed(folder.path()), *holder));
}

bool is_suspended(int process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process), 4096).value_or("");
  const std::size_t name_end = stat.rfind(')');  // "42 (a name) T ..."
  return name_end != std::string::npos && stat.substr(name_end + 1, 2) == " T";
}

}  // namespace cultivar
