#include "evaluators/targets/cpu/cell_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

namespace cultivar {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  if (::clock_gettime(clock, &t) != 0) return 0.0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Fault fault(Fault::Kind kind, std::string detail) {
  return Fault{kind, std::move(detail)};
}

// bwrap writes {"child-pid": n} once its namespaces exist: the cell's process ID as this process sees it.
int announced_pid(int descriptor, Clock::time_point deadline) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) return 0;
    char buffer[256];
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got <= 0) return 0;
    text.append(buffer, static_cast<std::size_t>(got));
    const auto facts = nlohmann::json::parse(text, nullptr, false);
    if (facts.is_object()) return facts.value("child-pid", 0);
  }
}

std::string call_name(std::uint32_t number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(number));
  std::string result = name ? name : fmt::format("number {}", number);
  std::free(name);
  if (result == "rt_sigprocmask") result += " (abort, raise, or a failed assertion)";
  if (result == "clock_gettime" || result == "gettimeofday" || result == "time")
    result += " (candidates may not read clocks)";
  if (result == "clone" || result == "clone3")
    result += " (starts a thread or process; declare threads in the manifest's launch instead)";
  return result;
}

std::string place_of(const cell::Hint& hint) {
  if (hint.signal == SIGSEGV && hint.code == SI_KERNEL)
    return "an unknown address: the cause is an instruction that reads the clock (rdtsc), an unaligned "
           "vector access, or a wild pointer";
  if (hint.signal == SIGSEGV && hint.address < 4096)
    return fmt::format("address {:#x}: a null pointer", hint.address);
  if (hint.signal == SIGSEGV && hint.near_stack)
    return "the end of the stack (16 MiB): an array is too large or a recursion too deep";
  return fmt::format("address {:#x}", hint.address);
}

// The time allowed for threads to go to sleep; a thread that still runs after it is doing work that nobody
// requested.
constexpr double settle_s = 0.05;

}  // namespace

double raw_seconds() {
  return seconds_of(CLOCK_MONOTONIC_RAW);
}

CellProcess::CellProcess(ChildProcess process, SharedMemory page)
    : process_(std::move(process)), page_(std::move(page)) {}

tl::expected<CellProcess, Fault> CellProcess::start(const CellOptions& options, const Sandbox& sandbox,
                                                    const cell::Job& job, const Arena& arena,
                                                    Clock::time_point deadline) {
  const auto failed = [](std::string why) {
    return tl::make_unexpected(fault(Fault::Kind::launch_failed, std::move(why)));
  };
  auto page = SharedMemory::create("cultivar-control", sizeof(cell::Control));
  if (!page) return failed(page.error().message);
  auto* control = new (page->data()) cell::Control{};
  control->job = job;

  const int read_only = arena.inputs().open_read_only();
  int info[2] = {-1, -1};
  Expected<FileAccessRules> walls = failure("landlock", "not needed");
  ProcessOptions process;
  process.descriptors = {page->descriptor(), read_only >= 0 ? read_only : arena.inputs().descriptor(),
                         arena.others().descriptor()};
  if (sandbox.usable()) {
    if (::pipe2(info, O_CLOEXEC) != 0) return failed("cannot create a pipe: no file descriptors are left");
    process.descriptors.push_back(info[1]);
    process.command =
        sandbox.command({{options.program, "/cell"}, {options.object, "/kernels.so"}},
                        {"--unshare-cgroup-try", "--as-pid-1", "--new-session", "--info-fd", "6", "--"});
    process.command.insert(process.command.end(), {"/cell", "/kernels.so"});
  } else {
    // Relative to the working folder: another user may be unable to walk the path of the cache.
    process.command = {options.program.string(), "./" + options.object.filename().string()};
    process.folder = options.object.parent_path();
    // Another user executes the program through a descriptor.
    process.privileges = readable_by_all(options.program) && readable_by_all(options.object)
                             ? sandbox.privileges_outside({})
                             : Privileges::none;
    walls = FileAccessRules::make(
        {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", options.program, options.object},
        {"/dev/null"});
    if (walls) process.walls = &*walls;
  }
  process.expendable = true;
  process.environment = std::vector<std::string>{};
  process.pipe_input = process.pipe_output = false;
  process.captured_bytes = 8 << 10;
  process.limits = {{RLIMIT_CORE, 0},
                    {RLIMIT_FSIZE, 0},
                    {RLIMIT_AS, arena.mapped_bytes() + options.memory_bytes + (std::size_t{512} << 20) +
                                    job.threads * (std::size_t{160} << 20)}};
  auto child = ChildProcess::spawn(process);
  if (read_only >= 0) ::close(read_only);
  if (info[1] >= 0) ::close(info[1]);
  if (!child) return failed(child.error().message);
  CellProcess cell(std::move(*child), std::move(*page));
  int pid = cell.process_.pid();
  if (info[0] >= 0) {
    pid = announced_pid(info[0], deadline);
    ::close(info[0]);
  }
  if (pid > 0)
    if (auto ready = cell.await(cell::threads_ready, deadline); !ready)
      return tl::make_unexpected(ready.error());
  if (pid <= 0 || ::clock_getcpuclockid(pid, &cell.cpu_clock_) != 0) {
    cell.process_.wait_or_kill(deadline_in(0.2));
    return failed("the sandbox process did not start: " + cell.process_.captured());
  }
  cell.threads_ = CellThreads(pid);
  cell.settle(deadline_in(settle_s));
  return cell;
}

tl::expected<void, Fault> CellProcess::load(Clock::time_point deadline) {
  control().load.store(1);
  wake(control().load);
  auto done = await(cell::kernels_loaded, deadline);
  loaded_ = done.has_value();
  settle(deadline_in(settle_s));
  return done;
}

void CellProcess::set_addresses(const Arena& arena) {
  for (std::size_t i = 0; i < arena.regions().size(); ++i) control().addresses[i] = arena.cell_address(i);
}

double CellProcess::cpu_seconds() const {
  return seconds_of(cpu_clock_);
}

void CellProcess::settle(Clock::time_point deadline) {
  for (int look = 0; !threads_.asleep() && Clock::now() < deadline; ++look)
    if (look > 2) std::this_thread::sleep_for(std::chrono::microseconds(20));
  cpu_asleep_s_ = cpu_seconds();
}

tl::expected<Ring, Fault> CellProcess::ring(cell::Command command, Clock::time_point deadline) {
  Ring result;
  control().command = command;
  const std::uint32_t number = ++rings_;
  result.before_s = cpu_seconds() - cpu_asleep_s_;
  const double start = raw_seconds();
  control().ring.store(number);
  wake(control().ring);
  auto done = await(number, deadline);
  const double cpu_at_done = cpu_seconds(), end = raw_seconds();
  result.wall_s = end - start;
  if (!done) return tl::make_unexpected(done.error());
  settle(deadline_in(settle_s));
  result.after_s = std::clamp(cpu_asleep_s_ - cpu_at_done, 0.0, raw_seconds() - end);
  return result;
}

tl::expected<void, Fault> CellProcess::await(std::uint32_t number, Clock::time_point deadline) {
  auto& word = control().done;
  for (int slice_ms = 5;; slice_ms = 20) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (seen == number) return {};
    if (process_.poll()) return tl::make_unexpected(died());
    if (Clock::now() >= deadline) return tl::make_unexpected(timed_out());
    // The cell cannot wake this thread when it dies, so check at intervals.
    const timespec slice{0, slice_ms * 1000000L};
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &slice, nullptr, 0);
  }
}

Fault CellProcess::timed_out() {
  process_.kill();
  process_.wait(deadline_in(5.0));
  if (!loaded_) return fault(Fault::Kind::timed_out, "the sandbox process did not start before the deadline");
  return fault(Fault::Kind::timed_out, "the kernel did not finish before the deadline and was killed");
}

Fault CellProcess::died() {
  const ExitStatus status = *process_.poll();
  // bwrap exits with 128 + n when signal n ended its child.
  const int signal = status.signal != 0 ? status.signal : status.code > 128 ? status.code - 128 : 0;
  const cell::Hint hint = control().hint;
  if (!loaded_) {
    if (status.code == cell::exit_load_failed) return fault(Fault::Kind::load_failed, process_.captured());
    const auto kind = signal == SIGSYS ? Fault::Kind::forbidden_call : Fault::Kind::launch_failed;
    return fault(kind, fmt::format("the sandbox process {} before the kernels ran: {}", status.describe(),
                                   process_.captured()));
  }
  // The signal handler in the cell reports any signal, then ends the process with a forbidden system call
  // (SIGSYS).
  const bool told = signal == SIGSYS && hint.signal != 0;
  const int first = told ? static_cast<int>(hint.signal) : signal;
  if (first == SIGSYS)
    return fault(Fault::Kind::forbidden_call,
                 told ? fmt::format("the kernel made the system call {}", call_name(hint.system_call))
                      : std::string("the kernel made a forbidden system call"));
  if (first == SIGKILL)
    return fault(Fault::Kind::out_of_memory,
                 "the system killed the kernel's process, most likely for lack of memory");
  if (first != 0) {
    if (told && hint.memory_exhausted)
      return fault(Fault::Kind::out_of_memory,
                   fmt::format("{} after the kernel exhausted its memory", signal_name(first)));
    std::string where = told && explain_ ? explain_(hint.address) : std::string();
    if (told && where.empty()) where = place_of(hint);
    return fault(Fault::Kind::crashed,
                 fmt::format("{}{}{}", signal_name(first), where.empty() ? "" : " at ", where));
  }
  return fault(Fault::Kind::crashed,
               fmt::format("the kernel ended its own process (exit code {})", status.code));
}

}  // namespace cultivar
