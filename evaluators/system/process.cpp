// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "evaluators/system/guardian.hpp"
#include "evaluators/system/memory_limit.hpp"

namespace cultivar {
namespace {

// A file descriptor that is closed exactly once.
struct Descriptor {
  int fd = -1;
  Descriptor() = default;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor() { reset(); }
  void reset() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

struct Pipe {
  Descriptor read, write;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
    return true;
  }
};

// Keeps the first and the last bytes of a stream of any length.
class BoundedCapture {
 public:
  explicit BoundedCapture(std::size_t limit) : half_(std::max<std::size_t>(limit / 2, 1)) {}
  void add(const char* data, std::size_t size) {
    const std::size_t to_head = std::min(size, half_ - head_.size());
    head_.append(data, to_head);
    tail_.append(data + to_head, size - to_head);
    if (tail_.size() > 2 * half_) {
      dropped_ += tail_.size() - half_;
      tail_.erase(0, tail_.size() - half_);
    }
  }
  std::string text() const {
    const std::size_t extra = tail_.size() > half_ ? tail_.size() - half_ : 0;
    if (dropped_ + extra == 0) return head_ + tail_;
    return fmt::format("{}\n... {} bytes omitted ...\n{}", head_, dropped_ + extra, tail_.substr(extra));
  }

 private:
  std::size_t half_, dropped_ = 0;
  std::string head_, tail_;
};

// Everything the child needs between vfork and execve, where it must not allocate.
struct Launch {
  const char* program = nullptr;
  const char* folder = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int standard[3] = {-1, -1, -1};
  const int* descriptors = nullptr;  // all above the range to which they are moved
  int descriptor_count = 0;
  const std::pair<int, std::size_t>* limits = nullptr;  // none above what is in force
  std::size_t limit_count = 0;
  const FileAccessRules* walls = nullptr;
  Privileges privileges = Privileges::kept;
  bool expendable = false;
  double goodbye_s = 0.0;
  pid_t parent = 0;
  sigset_t signals;              // the mask to restore in the child
  volatile int failed_step = 0;  // written by the child: vfork shares memory
  volatile int error = 0;
  int report =
      -1;  // guarded: the descriptor to which the guardian, which shares no memory, writes both values
};

[[noreturn]] void give_up(Launch& launch, int step) {
  launch.error = errno;
  launch.failed_step = step;
  ::_exit(127);
}

void die_with_parent(const Launch& launch) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(127);  // the parent died before the line above took effect
}

void be_expendable() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  if (::write(file, "1000", 4) < 0) errno = 0;  // only the choice of the system is the worse for it
  ::close(file);
}

[[noreturn]] void become(Launch& launch) {
  ::setpgid(0, 0);
  die_with_parent(launch);
  for (int number = 1; number < 32; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
  for (int i = 0; i < 3; ++i)
    if (::dup2(launch.standard[i], i) < 0) give_up(launch, 1);
  for (int i = 0; i < launch.descriptor_count; ++i)
    if (::dup2(launch.descriptors[i], 3 + i) < 0) give_up(launch, 1);
  if (launch.folder && ::chdir(launch.folder) != 0) give_up(launch, 2);
  if (launch.walls && !launch.walls->enclose_this_thread()) give_up(launch, 5);
  ::syscall(SYS_close_range, static_cast<unsigned>(3 + launch.descriptor_count), ~0U, 0U);
  for (std::size_t i = 0; i < launch.limit_count; ++i) {
    const rlimit limit{launch.limits[i].second, launch.limits[i].second};
    if (::setrlimit(static_cast<__rlimit_resource>(launch.limits[i].first), &limit) != 0) give_up(launch, 3);
  }
  if (launch.expendable) be_expendable();
  // Another user may be unable to walk the path of the program.
  const int program = ::open(launch.program, O_PATH | O_CLOEXEC);
  if (!give_up(launch.privileges)) give_up(launch, 6);
  die_with_parent(launch);
  ::sigprocmask(SIG_SETMASK, &launch.signals, nullptr);
  ::execve(launch.program, launch.arguments, launch.environment);
  if (errno == EACCES && program >= 0)
    ::syscall(SYS_execveat, program, "", launch.arguments, launch.environment, AT_EMPTY_PATH);
  give_up(launch, 4);
}

pid_t start_guarded(void* launch) {
  auto& all = *static_cast<Launch*>(launch);
  all.parent = ::getpid();
  const pid_t child = ::vfork();
  if (child == 0) become(all);
  if (child < 0) all.error = errno;
  return child < 0 || all.failed_step != 0 ? -1 : child;
}

void report_start(void* launch) {
  const auto& all = *static_cast<Launch*>(launch);
  const int words[2] = {all.failed_step, all.error};
  if (::write(all.report, words, sizeof words) < 0) ::_exit(127);
}

// The process ID of the guardian; -1 if the program could not be started, with the reason in `launch`.
pid_t fork_guarded(Launch& launch) {
  Pipe report;
  if (!report.open()) {
    launch.error = errno;
    return -1;
  }
  launch.report = report.write.fd;
  const pid_t parent = launch.parent;
  const pid_t guardian = ::fork();
  if (guardian == 0) stand_guard(parent, start_guarded, report_start, &launch, launch.goodbye_s);
  if (guardian < 0) {
    launch.error = errno;
    return -1;
  }
  report.write.reset();
  int words[2] = {0, 0};
  ssize_t got = 0;
  while ((got = ::read(report.read.fd, words, sizeof words)) < 0 && errno == EINTR) {
  }
  if (got == sizeof words && words[0] == 0 && words[1] == 0) return guardian;
  launch.failed_step = words[0];
  launch.error = words[1];
  ::waitpid(guardian, nullptr, 0);
  return -1;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const auto& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

std::string last_error() {
  return std::strerror(errno);
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  const auto runnable = [](const std::filesystem::path& p) {
    std::error_code error;
    return std::filesystem::is_regular_file(p, error) && ::access(p.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return runnable(name) ? std::filesystem::path(name) : "";
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t start = 0; start <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', start), rest.size());
    const auto candidate = std::filesystem::path(rest.substr(start, end - start)) / name;
    if (end > start && runnable(candidate)) return candidate;
    start = end + 1;
  }
  return {};
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

std::string ExitStatus::describe() const {
  if (signal == 0) return fmt::format("exited with {}", code);
  const auto limit = limit_in_force(RLIMIT_CPU);
  if (!limit || user_s + system_s + 1.0 < static_cast<double>(*limit))
    return "killed by " + signal_name(signal);
  return fmt::format("killed by {}, after the {} of processor time that this shell allows",
                     signal_name(signal), limit_in_words(RLIMIT_CPU, RLIM_INFINITY));
}

// Shared by the ChildProcess and its watcher. The watcher is the thread that forks, because the kernel sends
// the parent-death signal when the *thread* that forked ends; it lives exactly as long as the child.
struct ChildProcess::State {
  explicit State(const ProcessOptions& options) : guarded(options.guarded), capture(options.captured_bytes) {}

  const bool guarded;  // `pid` is that of the guardian

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  pid_t pid = -1;
  bool reaped = false;
  ExitStatus status;
  BoundedCapture capture;
  Descriptor input, output, errors;
  std::thread watcher;

  void drain() {
    std::array<char, 16384> buffer;
    const ssize_t got = ::read(errors.fd, buffer.data(), buffer.size());
    if (got > 0) {
      const std::lock_guard lock(mutex);
      capture.add(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      errors.reset();
    }
  }

  void watch() {
    const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
    for (;;) {
      pollfd waits[2] = {{errors.fd, POLLIN, 0}, {process.fd, POLLIN, 0}};
      ::poll(waits, 2, process.fd >= 0 ? 1000 : 10);  // old kernels have no pidfd: check every 10 ms
      if (waits[0].revents != 0) drain();
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == 0)
        continue;
      break;
    }
    finish();
  }

  void finish() {
    // The child has not been reaped, so its process group number cannot have been reused: kill what the child
    // left behind.
    ::kill(-pid, SIGKILL);
    for (int i = 0; i < 64 && errors.fd >= 0; ++i) {
      pollfd rest{errors.fd, POLLIN, 0};
      if (::poll(&rest, 1, 0) <= 0) break;
      drain();
    }
    const std::lock_guard lock(mutex);
    int raw = 0;
    rusage usage{};
    while (::wait4(pid, &raw, 0, &usage) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
    if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    status.user_s = seconds(usage.ru_utime);
    status.system_s = seconds(usage.ru_stime);
    status.peak_bytes = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
    reaped = true;
    changed.notify_all();
  }
};

Expected<ChildProcess> ChildProcess::spawn(const ProcessOptions& options) {
  const std::string what =
      "start " + (options.command.empty() ? std::string("process") : options.command.front());
  if (options.command.empty()) return failure(what, "the command is empty");
  const std::string program = find_program(options.command.front()).string();
  if (program.empty()) return failure(what, "no such executable program in PATH");

  auto state = std::make_shared<State>(options);
  Pipe in, out, err;
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null.fd < 0 || (options.pipe_input && !in.open()) || (options.pipe_output && !out.open()) ||
      !err.open())
    return failure(what, "cannot create a pipe: " + last_error());

  const int first_free = 3 + static_cast<int>(options.descriptors.size());
  std::vector<int> moved;  // numbers above their final ones, so that no dup2 overwrites a later one
  std::vector<Descriptor> keep;
  for (const int fd : options.descriptors) {
    keep.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, first_free));
    if (keep.back().fd < 0)
      return failure(what, "cannot duplicate a descriptor for the child: " + last_error());
    moved.push_back(keep.back().fd);
  }
  // The same for the standard three: if the parent's stdin is closed, a pipe may have number 0.
  int standard[3] = {options.pipe_input ? in.read.fd : null.fd,
                     options.pipe_output ? out.write.fd : err.write.fd, err.write.fd};
  for (int& fd : standard) {
    keep.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, first_free));
    fd = keep.back().fd;
    if (fd < 0) return failure(what, "cannot duplicate a descriptor for the child: " + last_error());
  }

  Launch launch;
  const auto arguments = pointers(options.command);
  const auto environment = options.environment ? pointers(*options.environment) : std::vector<char*>{};
  launch.program = program.c_str();
  launch.folder = options.folder.empty() ? nullptr : options.folder.c_str();
  launch.arguments = arguments.data();
  launch.environment = options.environment ? environment.data() : environ;
  std::copy(standard, standard + 3, launch.standard);
  launch.descriptors = moved.data();
  launch.descriptor_count = static_cast<int>(moved.size());
  std::vector<std::pair<int, std::size_t>> limits = options.limits;
  for (auto& [resource, limit] : limits) limit = within_limit_in_force(resource, limit);
  launch.limits = limits.data();
  launch.limit_count = limits.size();
  launch.walls = options.walls;
  launch.privileges = options.privileges;
  launch.expendable = options.expendable;
  launch.goodbye_s = options.goodbye_s;
  launch.parent = ::getpid();

  state->errors = std::move(err.read);
  std::promise<pid_t> started;
  auto result = started.get_future();
  state->watcher = std::thread([state, &launch, &started] {
    // No signal handler of the parent may run in the child while it shares the parent's memory.
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    sigemptyset(&launch.signals);
    const pid_t child = state->guarded ? fork_guarded(launch) : ::vfork();
    if (child == 0) become(launch);
    const bool failed = child < 0 || launch.failed_step != 0;
    if (child > 0 && failed) ::waitpid(child, nullptr, 0);
    if (child < 0 && !state->guarded) launch.error = errno;
    state->pid = failed ? -1 : child;
    std::promise<pid_t> done = std::move(started);
    done.set_value(state->pid);
    if (!failed) state->watch();
  });
  if (result.get() < 0) {
    state->watcher.join();
    static constexpr const char* steps[] = {
        "fork", "dup2", "chdir", "setrlimit", "execve", "landlock", "giving up privileges"};
    return failure(what,
                   fmt::format("{} failed: {}", steps[launch.failed_step], std::strerror(launch.error)));
  }
  if (options.pipe_input) {
    state->input = std::move(in.write);
    ::fcntl(state->input.fd, F_SETFL, ::fcntl(state->input.fd, F_GETFL) | O_NONBLOCK);
  }
  if (options.pipe_output) state->output = std::move(out.read);
  return ChildProcess(std::move(state));
}

ChildProcess::ChildProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  ChildProcess old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!state_) return;
  kill();
  // A process inside the kernel (a GPU driver shutting down) may take long to die; its watcher then reaps it
  // later.
  if (wait(deadline_in(10.0)))
    state_->watcher.join();
  else
    state_->watcher.detach();
}

int ChildProcess::pid() const {
  return state_->pid;
}
int ChildProcess::input() const {
  return state_->input.fd;
}
int ChildProcess::output() const {
  return state_->output.fd;
}
void ChildProcess::close_input() {
  state_->input.reset();
}

const ExitStatus* ChildProcess::poll() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reaped ? &state_->status : nullptr;
}

const ExitStatus* ChildProcess::wait(Clock::time_point deadline) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(lock, deadline, [&] { return state_->reaped; }) ? &state_->status
                                                                                    : nullptr;
}

void ChildProcess::kill() {
  const std::lock_guard lock(state_->mutex);
  if (state_->reaped) return;
  if (state_->guarded)
    ::kill(state_->pid, SIGTERM);  // the guardian kills all other processes and itself
  else
    ::kill(-state_->pid, SIGKILL);
}

bool ChildProcess::wait_or_kill(Clock::time_point deadline) {
  if (wait(deadline)) return true;
  kill();
  wait(deadline_in(10.0));
  return false;
}

std::string ChildProcess::captured() const {
  const std::lock_guard lock(state_->mutex);
  return state_->capture.text();
}

bool sent_from_outside(int signal) {
  constexpr std::array kSent{SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPWR, SIGUSR1, SIGUSR2};
  return std::ranges::find(kSent, signal) != kSent.end();
}

}  // namespace cultivar
