// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/cell_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"

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

// Signals that the handler in the cell reports. A candidate may have written any other number there, such as
// one that only others can send, to blame the machine for its end.
bool is_of_the_kernel(std::uint32_t signal) {
  for (const int known : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    if (signal == static_cast<std::uint32_t>(known)) return true;
  return false;
}

// What usually causes a signal.
std::string_view remedy_after(int signal) {
  switch (signal) {
    case SIGILL:
    case SIGTRAP:
      return "The kernel came to an instruction that this processor does not have or that stops a program. "
             "Look for __builtin_trap, __builtin_unreachable, functions without a return, inline assembly.";
    case SIGFPE:
      return "Look for a division of whole numbers by 0, for this shape.";
    default:
      return "Look for indices beyond a buffer, unaligned vector loads, deep recursion or large arrays on "
             "the stack, for this shape.";
  }
}

// bubblewrap exits with 128 and the number of the signal that ended the original. It is not the kernel's
// choice: only copies of the original load the kernel.
ExitStatus end_of_original(ExitStatus status) {
  if (status.signal == 0 && status.code > 128) status.signal = std::exchange(status.code, 0) - 128;
  return status;
}

// The time allowed for the threads of a copy, which have not run candidate code, to go to sleep before a
// request. Only a very busy machine needs more.
constexpr double settle_s = 0.5;
// The time allowed for a copy that was killed to be gone: the system frees its memory, which may be much.
constexpr double end_s = 20.0;

}  // namespace

double raw_seconds() {
  return seconds_of(CLOCK_MONOTONIC_RAW);
}

UniqueDescriptor::~UniqueDescriptor() {
  if (number_ >= 0) ::close(number_);
}

CellProcess::CellProcess(ChildProcess process, SharedMemory page, UniqueDescriptor socket,
                         const cell::Job& job)
    : process_(std::move(process)), page_(std::move(page)), socket_(std::move(socket)), job_(job) {}

tl::expected<CellProcess, Fault> CellProcess::start(const CellOptions& options, const Sandbox& sandbox,
                                                    const cell::Job& job, const Arena& arena,
                                                    Clock::time_point deadline) {
  const auto failed = [](std::string why) {
    return tl::make_unexpected(fault(Fault::Kind::launch_failed, std::move(why)));
  };
  auto page = SharedMemory::create("cultivar-control", sizeof(cell::Control));
  if (!page) return failed(page.error().message);
  (new (page->data()) cell::Control{})->job = job;

  int ends[2] = {-1, -1};
  const int on = 1;
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return failed("cannot create a socket: no file descriptors are left");
  UniqueDescriptor here(ends[0]), there(ends[1]);
  if (::setsockopt(here.number(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return failed("the socket does not tell who writes to it");

  const UniqueDescriptor read_only(arena.inputs().open_read_only());
  Expected<FileAccessRules> walls = failure("landlock", "not needed");
  ProcessOptions process;
  process.descriptors = {page->descriptor(),
                         read_only.number() >= 0 ? read_only.number() : arena.inputs().descriptor(),
                         arena.others().descriptor(), there.number()};
  if (sandbox.usable()) {
    process.command = sandbox.command({{options.program, "/cell"}, {options.object, "/kernels.so"}},
                                      {"--unshare-cgroup-try", "--as-pid-1", "--new-session", "--"});
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
  if (!child) return failed(child.error().message);
  CellProcess cell(std::move(*child), std::move(*page), std::move(here), job);
  if (!cell.hear(cell::Note::Kind::ready, deadline)) {
    if (Clock::now() >= deadline) return tl::make_unexpected(cell.timed_out());
    if (const ExitStatus* const over = cell.process_.poll())
      if (const int signal = end_of_original(*over).signal; sent_from_outside(signal))
        return tl::make_unexpected(cell.killed(signal));
    cell.process_.wait_or_kill(deadline_in(0.2));
    return failed("the sandbox process did not start: " + cell.trouble_ + cell.process_.captured());
  }
  return cell;
}

// Takes one note from the socket, if one comes in time.
void CellProcess::listen(int milliseconds) {
  pollfd wait{socket_.number(), POLLIN, 0};
  if (::poll(&wait, 1, milliseconds) <= 0) return;
  cell::Note note;
  iovec content{&note, sizeof note};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (got != sizeof note || header == nullptr || header->cmsg_type != SCM_CREDENTIALS) return;
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  note.text[sizeof note.text - 1] = '\0';
  switch (note.kind) {
    case cell::Note::Kind::ready:
      if (original_ == 0) original_ = sender.pid;
      return;
    case cell::Note::Kind::copied:
      if (copy_ == 0 && sender.pid != original_) copy_ = sender.pid;
      return;
    case cell::Note::Kind::ended:
      if (sender.pid == original_) end_ = note;
      return;
    case cell::Note::Kind::trouble:
      trouble_ = note.text;
      return;
  }
}

// False: too late, or the sender has ended.
bool CellProcess::hear(cell::Note::Kind kind, Clock::time_point deadline) {
  for (;;) {
    if (kind == cell::Note::Kind::ready && original_ != 0) return true;
    if (kind == cell::Note::Kind::copied && copy_ != 0) return true;
    if (end_) return kind == cell::Note::Kind::ended;
    if (process_.poll() || Clock::now() >= deadline) return false;
    listen(20);
  }
}

void CellProcess::order_copy(Loading loading) {
  // All of the page, also what lies beyond the structure: the last copy may have left something there.
  std::memset(page_.data(), 0, page_.size());
  auto* const control = new (page_.data()) cell::Control{};
  control->job = job_;
  control->load.store(loading == Loading::at_once ? 1 : 0);
  // Counting from a random number, so that a candidate cannot read here how many runs came before.
  rings_ = static_cast<std::uint32_t>(secret_seed() & 0x3fffffffU);
  control->ring.store(rings_);
  copy_ = 0;
  end_.reset();
  trouble_.clear();
  loaded_ = false;
  const char request = 1;
  (void)::send(socket_.number(), &request, sizeof request, MSG_NOSIGNAL);  // if it fails, nobody will answer
}

tl::expected<void, Fault> CellProcess::await_copy(Clock::time_point deadline) {
  if (!hear(cell::Note::Kind::copied, deadline))
    return tl::make_unexpected(end_ || process_.poll() ? died() : timed_out());
  const bool loads = control().load.load() != 0;
  if (auto ready = await(loads ? cell::kernels_loaded : cell::threads_ready, deadline); !ready) return ready;
  loaded_ = loads;
  threads_ = CellThreads(copy_);
  return {};
}

tl::expected<void, Fault> CellProcess::load(Clock::time_point deadline) {
  control().load.store(1);
  wake(control().load);
  auto done = await(cell::kernels_loaded, deadline);
  loaded_ = done.has_value();
  return done;
}

void CellProcess::set_addresses(const Arena& arena) {
  for (std::size_t i = 0; i < arena.regions().size(); ++i) control().addresses[i] = arena.cell_address(i);
}

bool CellProcess::settle(Clock::time_point deadline) const {
  for (int look = 0; !threads_.asleep(); ++look) {
    if (Clock::now() >= deadline) return false;
    if (look > 2) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

tl::expected<Ring, Fault> CellProcess::ring(cell::Command command, Clock::time_point deadline) {
  Ring result;
  control().command = command;
  const std::uint32_t number = ++rings_;
  result.settled = settle(deadline_in(settle_s));
  const double start = raw_seconds();
  control().ring.store(number);
  wake(control().ring);
  const auto done = await(number, deadline);
  if (done && command == cell::Command::run) ::kill(copy_, SIGKILL);  // it exists until the next copy is made
  result.wall_s = raw_seconds() - start;
  if (!done) return tl::make_unexpected(done.error());
  if (command == cell::Command::run && !hear(cell::Note::Kind::ended, deadline_in(end_s)))
    return tl::make_unexpected(
        process_.poll()
            ? died()  // the original, which would have told of it
            : fault(Fault::Kind::launch_failed, "the sandbox process did not end after it was killed"));
  if (end_ && end_->signal != SIGKILL) return tl::make_unexpected(died());  // it came before the kill
  return result;
}

tl::expected<void, Fault> CellProcess::await(std::uint32_t number, Clock::time_point deadline) {
  auto& word = control().done;
  for (int slice_ms = 5;; slice_ms = 20) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (seen == number) return {};
    if (!end_) listen(0);
    if (end_ || process_.poll()) return tl::make_unexpected(died());
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

Fault CellProcess::killed(int signal) const {
  if (signal != SIGKILL || out_of_memory_kills() == memory_kills_before_)
    return fault(Fault::Kind::killed,
                 fmt::format("the kernel's process was killed from outside ({})", signal_name(signal)));
  return fault(Fault::Kind::memory_limit,
               fmt::format("the system killed the kernel's process at {}", memory_limit_in_words()));
}

Fault CellProcess::died() {
  ExitStatus status;
  if (end_) {
    listen(0);  // what the copy said may still lie in the socket
    status.code = end_->code;
    status.signal = end_->signal;
  } else {
    status = end_of_original(*process_.poll());
  }
  const int signal = status.signal;
  const cell::Hint hint = control().hint;
  if (!loaded_) {
    const std::string why = !trouble_.empty()     ? trouble_
                            : end_ && *end_->text ? std::string(end_->text)
                                                  : process_.captured();
    if (status.code == cell::exit_load_failed) return fault(Fault::Kind::load_failed, why);
    if (sent_from_outside(signal)) return killed(signal);
    if (status.code == cell::exit_no_threads) return fault(Fault::Kind::memory_limit, why);
    const auto kind = signal == SIGSYS ? Fault::Kind::forbidden_call : Fault::Kind::launch_failed;
    return fault(kind,
                 fmt::format("the sandbox process {} before the kernels ran: {}", status.describe(), why));
  }
  // The signal handler in the cell reports any signal, then ends the process with a forbidden system call
  // (SIGSYS).
  const bool told = signal == SIGSYS && is_of_the_kernel(hint.signal);
  const int first = told ? static_cast<int>(hint.signal) : signal;
  if (first == SIGSYS)
    return fault(Fault::Kind::forbidden_call,
                 told ? fmt::format("the kernel made the system call {}", call_name(hint.system_call))
                      : std::string("the kernel made a forbidden system call"));
  if (sent_from_outside(first)) return killed(first);
  if (first != 0) {
    if (told && hint.memory_exhausted)
      return fault(Fault::Kind::out_of_memory,
                   fmt::format("{} after the kernel exhausted its memory", signal_name(first)));
    std::string where = told && explain_ ? explain_(hint.address) : std::string();
    if (told && where.empty()) where = place_of(hint);
    return fault(Fault::Kind::crashed, fmt::format("{}{}{}\n{}", signal_name(first),
                                                   where.empty() ? "" : " at ", where, remedy_after(first)));
  }
  return fault(Fault::Kind::crashed,
               fmt::format("the kernel ended its own process (exit code {})\nA kernel returns to its caller.",
                           status.code));
}

class CellThreads::Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& file)
      : number_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // The letter after "pid (name) ". The cell sets its own name, which may hold any character but at most 15
  // bytes.
  char state() const {
    char text[128];
    const auto length = ::pread(number_, text, sizeof text, 0);
    if (length <= 0) return 'X';  // the thread has ended
    const std::string_view line(text, static_cast<std::size_t>(length));
    const auto end_of_name = line.rfind(") ");
    return end_of_name == std::string_view::npos || end_of_name + 2 >= line.size() ? 'R'
                                                                                   : line[end_of_name + 2];
  }

 private:
  int number_;
};

CellThreads::CellThreads(int pid) {
  std::error_code gone;
  const auto folder = std::filesystem::path("/proc") / std::to_string(pid) / "task";
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone))
    states_.push_back(std::make_shared<const Descriptor>(entry.path() / "stat"));
}

bool CellThreads::asleep() const {
  return std::none_of(states_.begin(), states_.end(), [](const auto& thread) {
    const char state = thread->state();
    return state == 'R' || state == 'D';
  });
}

}  // namespace cultivar
