// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/detached_search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/store/record.hpp"
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

std::string systemd_word(const std::string& text) {
  std::string word = "\"";
  for (const char c : text) switch (c) {
      case '"':
      case '\\':
        word += '\\';
        word += c;
        break;
      case '%':  // begins a specifier
      case '$':  // begins a variable
        word += c;
        word += c;
        break;
      case '\n':
        word += "\\n";
        break;
      default:
        word += c;
    }
  return word + '"';
}

std::string text_of(const SystemdUnit& u) {
  const std::string run = shell_word(u.run_folder.string()), program = shell_word(u.program.string());
  const std::string log = shell_word((u.run_folder / "search.log").string());
  std::string sets;
  for (const std::string& each : u.overrides) sets += " --set " + shell_word(each);
  const std::string command = fmt::format(
      "if [ -e {0}/run.db ]; then exec {1} resume {0} --trust --log {2}; else exec {1} run {3} --run-dir "
      "{0}{4} --log {2}; fi",
      run, program, log, shell_word(u.config.string()), sets);
  std::string folder;  // a path setting takes no quotes
  for (const char c : u.folder.string()) folder += c == '%' ? std::string("%%") : std::string(1, c);
  const std::string keys =
      u.keys.empty()
          ? ""
          : fmt::format(
                "# Write {} into this file, one NAME=value per line, without `export`, and let only "
                "yourself read it (chmod 600); without the file the search does not "
                "start:\nEnvironmentFile=%h/.config/cultivar/keys\n",
                fmt::join(u.keys, ", "));
  const std::string cache =
      u.cache.empty() ? "" : "Environment=" + systemd_word("CULTIVAR_CACHE=" + u.cache.string()) + "\n";
  const std::string file = fmt::format("cultivar-{}.service", u.name);
  return fmt::format(
      "# To install it:\n"
      "#   cultivar run ... --print-systemd > ~/.config/systemd/user/{0}\n"
      "#   systemctl --user enable --now {0}\n"
      "# So that it also runs while you are not logged in:  loginctl enable-linger\n"
      "[Unit]\n"
      "Description=Cultivar search {1}\n"
      "\n"
      "[Service]\n"
      "Type=exec\n"
      "WorkingDirectory={2}\n"
      "Environment={3}\n"
      "{6}{4}"
      "ExecStart=/bin/sh -c {5}\n"
      "# SIGTERM stops the search with a checkpoint; its workers end with it.\n"
      "KillMode=mixed\n"
      "TimeoutStopSec=3min\n"
      "# After a kill or a crash it is resumed. A search that ended by itself, or that you stopped, is not.\n"
      "Restart=on-abnormal\n"
      "RestartSec=30\n"
      "SuccessExitStatus=130\n"
      "\n"
      "[Install]\n"
      "WantedBy=default.target\n",
      shell_word(file), plain_line(u.name, 100), folder, systemd_word("PATH=" + u.path), keys,
      systemd_word(command), cache);
}

namespace {

constexpr off_t kShownAtOnce = 64 << 10;  // bytes of the end of a log

class OpenLog {
 public:
  explicit OpenLog(const fs::path& file)
      : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)) {}
  ~OpenLog() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenLog(OpenLog&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenLog& operator=(OpenLog&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool is(const fs::path& file) const {
    struct stat own {
    }, named{};
    return descriptor_ >= 0 && ::fstat(descriptor_, &own) == 0 && ::lstat(file.c_str(), &named) == 0 &&
           own.st_ino == named.st_ino && own.st_dev == named.st_dev;
  }
  void go_to_end() {
    const off_t size = ::lseek(descriptor_, 0, SEEK_END);
    if (size >= 0) ::lseek(descriptor_, std::max<off_t>(0, size - kShownAtOnce), SEEK_SET);
  }
  std::string read() {  // what is there, at most 64 KiB
    std::array<char, kShownAtOnce> buffer{};
    const ssize_t count = descriptor_ < 0 ? 0 : ::read(descriptor_, buffer.data(), buffer.size());
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
  }

 private:
  int descriptor_;
};

fs::path rotated(const fs::path& file, int times) {
  return times == 0 ? file : fs::path(fmt::format("{}.{}", file.string(), times));
}

// The log that follows one that was renamed: FILE.1 after FILE.2, FILE after FILE.1, and FILE after one that
// is no longer kept. Returns a log that is not open if a rotation is under way.
OpenLog successor(const OpenLog& log, const fs::path& file) {
  for (int times = 1; times <= SearchLog::kKept; ++times) {
    if (!log.is(rotated(file, times))) continue;
    OpenLog next(rotated(file, times - 1));
    // A log is renamed before its successor: if it still has its name, that was the next one.
    return log.is(rotated(file, times)) ? std::move(next) : OpenLog({});
  }
  return OpenLog(file);
}

}  // namespace

SearchLog::SearchLog(fs::path file, std::uintmax_t most_bytes)
    : file_(std::move(file)), most_bytes_(most_bytes) {
  std::error_code failed;
  fs::create_directories(file_.parent_path(), failed);
  redirect();
}

void SearchLog::redirect() const {
  const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw std::runtime_error(fmt::format("{}: {}; name a file that can be written with --log", file_.string(),
                                         std::strerror(errno)));
  std::fflush(stdout);
  ::dup2(descriptor, STDOUT_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
}

void SearchLog::rotate_if_large() {
  if (std::ferror(stderr) != 0 || std::ferror(stdout) != 0) {
    std::clearerr(stdout);
    std::clearerr(stderr);
    std::fputs(
        "\n... lines are missing here: this log could not be written (the record has all events) ...\n",
        stderr);
  }
  std::error_code failed;
  if (fs::file_size(file_, failed) < most_bytes_ || failed) return;
  for (int i = kKept; i > 0; --i) fs::rename(rotated(file_, i - 1), rotated(file_, i), failed);
  try {
    redirect();
  } catch (const std::exception&) {
    // Both still write to the renamed file.
  }
}

void follow_log(const fs::path& file, std::size_t last_lines,
                const std::function<void(const std::string&)>& show, const std::function<bool()>& goes_on) {
  constexpr std::size_t kLongestLine = 64 << 10;
  OpenLog log(file);
  log.go_to_end();
  std::string pending;
  const auto tell = [&] {  // all complete lines
    std::size_t from = 0;
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', from)) {
      show(pending.substr(from, end - from));
      from = end + 1;
    }
    pending.erase(0, from);
    if (pending.size() > kLongestLine) show(std::exchange(pending, {}));
  };
  pending = log.read();
  std::size_t start = pending.size();
  for (std::size_t line = 0; line <= last_lines && start != std::string::npos && start > 0; ++line)
    start = pending.rfind('\n', start - 1);
  if (start != std::string::npos && start < pending.size()) pending.erase(0, start + 1);
  for (;;) {
    tell();
    const bool last = !goes_on();  // asked before the read, so that nothing is missed
    for (;;) {
      const bool renamed = !log.is(file);  // asked before the read, so that its last lines are read
      std::string more = log.read();
      if (more.empty()) {
        if (!renamed) break;
        OpenLog next = successor(log, file);
        if (!next.is_open()) break;
        log = std::move(next);
        continue;
      }
      pending += more;
      tell();
    }
    if (last) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (!pending.empty()) show(pending);
}

}  // namespace cultivar
