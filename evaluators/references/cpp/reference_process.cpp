// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/cpp/reference_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "evaluators/references/reference.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/privileges.hpp"
#include "evaluators/system/process.hpp"

namespace cultivar {

Arithmetic::Arithmetic(int rounding) : usual_(rounding == FE_TONEAREST) {
  if (usual_) return;
  std::fegetenv(&before_);
  if (rounding != kFlushing) std::fesetround(rounding);
#ifdef __SSE2__
  constexpr unsigned kResults = 0x8000, kOperands = 0x40;
  if (rounding == kFlushing) _mm_setcsr(_mm_getcsr() | kResults | kOperands);
#endif
}

Arithmetic::~Arithmetic() {
  if (!usual_) std::fesetenv(&before_);
}

namespace {

constexpr double kMostSeconds = 600.0;

using Function = void (*)(const ReferenceArgs& args, std::int64_t row, double* out);

// Shared with the child. The child may write anything there: only the results are used, as numbers.
struct alignas(64) Board {
  enum State : int { failed, no_filter, not_loaded, missing, threw, done };
  std::atomic<int> state{failed};
  char trouble[400] = {};
};

class SharedPages {
 public:
  explicit SharedPages(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~SharedPages() { ::munmap(data_, bytes_); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  Board& board() const { return *static_cast<Board*>(data_); }
  double* results() const { return reinterpret_cast<double*>(static_cast<char*>(data_) + sizeof(Board)); }

 private:
  std::size_t bytes_;
  void* data_;
};
static_assert(sizeof(Board) % alignof(double) == 0);

// What loading a library and computing need. Everything else ends the process.
bool allow_only_computing() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (!context) return false;
  bool good = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
  for (const int number :
       {SCMP_SYS(read),           SCMP_SYS(pread64),       SCMP_SYS(close),          SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),     SCMP_SYS(stat),          SCMP_SYS(statx),          SCMP_SYS(lseek),
        SCMP_SYS(access),         SCMP_SYS(faccessat),     SCMP_SYS(readlink),       SCMP_SYS(readlinkat),
        SCMP_SYS(mmap),           SCMP_SYS(mprotect),      SCMP_SYS(munmap),         SCMP_SYS(mremap),
        SCMP_SYS(madvise),        SCMP_SYS(brk),           SCMP_SYS(futex),          SCMP_SYS(sched_yield),
        SCMP_SYS(getrandom),      SCMP_SYS(exit),          SCMP_SYS(exit_group),     SCMP_SYS(rt_sigreturn),
        SCMP_SYS(rt_sigprocmask), SCMP_SYS(clock_gettime), SCMP_SYS(restart_syscall)})
    if (number >= 0) good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0) == 0;
  // To read; where there is no Landlock this leaves the user's files, of which nothing but numbers can get
  // out.
  constexpr std::uint64_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC;
  const scmp_arg_cmp only_reads = {2, SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY};  // of openat's arguments
  good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, only_reads) == 0 &&
         seccomp_load(context) == 0;
  seccomp_release(context);
  return good;
}

// The child's part.
class Calculation {
 public:
  Calculation(const OracleCall& call, std::span<const OracleRow> rows, const SharedPages& pages)
      : call_(call), rows_(rows), board_(pages.board()), out_(pages.results()) {}

  [[noreturn]] void run(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGPIPE})
      ::signal(number, SIG_DFL);
    ::syscall(SYS_close_range, 0U, ~0U, 0U);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::setrlimit(RLIMIT_FSIZE, &none);
    if (call_.low_priority) ::setpriority(PRIO_PROCESS, 0, 5);  // threads inherit it
    if (auto rules = FileAccessRules::make({"/usr", "/lib", "/lib64", "/etc/ld.so.cache", call_.library}, {}))
      rules_.emplace(std::move(*rules));
    // Threads start before the filter, which also applies to them, and work after it.
    const auto helpers = std::min(rows_.size(), static_cast<std::size_t>(std::max(1, call_.threads)));
    // Otherwise malloc asks the system for the number of cores once more than eight threads use it.
    ::mallopt(M_ARENA_MAX, static_cast<int>(std::max<std::size_t>(helpers, 8)));
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < helpers; ++i) threads.emplace_back([this] { help(); });
    for (int ready; (ready = ready_.load()) + 1 < static_cast<int>(helpers);) ready_.wait(ready);
    if (!enclose() || !allow_only_computing()) finish(Board::no_filter, std::strerror(errno));

    void* const library = ::dlopen(call_.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) finish(Board::not_loaded, ::dlerror());
    function_ = reinterpret_cast<Function>(::dlsym(library, call_.function));
    if (function_ == nullptr) finish(Board::missing, "");
    begun_.store(1);
    begun_.notify_all();
    work();
    for (std::size_t left; (left = done_.load()) < rows_.size();) done_.wait(left);
    finish(Board::done, "");
  }

 private:
  // Applies to the calling thread.
  bool enclose() const { return give_up(Privileges::none) && (!rules_ || rules_->enclose_this_thread()); }

  void help() {
    if (!enclose()) finish(Board::no_filter, std::strerror(errno));
    ready_.fetch_add(1);
    ready_.notify_all();
    begun_.wait(0);
    work();
  }

  void work() {
    for (std::size_t i; (i = next_.fetch_add(1)) < rows_.size();) {
      try {
        const OracleRow& call = rows_[i];
        if (call.answer == nullptr)
          call_in_arithmetic(call_.rounding, [&] { function_(*call.args, call.row, out_ + call.value); });
        else
          out_[call.value] =
              reinterpret_cast<IndexRule>(reinterpret_cast<void*>(function_))(*call.args, *call.answer) ? 1.0
                                                                                                        : 0.0;
      } catch (const std::exception& error) {
        finish(Board::threw, error.what());
      }
      if (done_.fetch_add(1) + 1 == rows_.size()) done_.notify_all();
    }
  }

  [[noreturn]] void finish(Board::State state, const char* trouble) {
    std::strncpy(board_.trouble, trouble ? trouble : "", sizeof board_.trouble - 1);
    board_.state = state;
    ::_exit(0);
  }

  const OracleCall& call_;
  std::span<const OracleRow> rows_;
  Board& board_;
  double* out_;
  std::optional<FileAccessRules> rules_;
  Function function_ = nullptr;
  std::atomic<int> ready_{0}, begun_{0};
  std::atomic<std::size_t> next_{0}, done_{0};
};

// Waits for the child to end; false after the deadline.
bool ended_in_time(pid_t child, int& status) {
  const auto deadline = deadline_in(kMostSeconds);
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0U));
  bool in_time = true;
  if (handle >= 0) {
    pollfd wait{handle, POLLIN, 0};
    while (in_time && ::poll(&wait, 1, 1000) <= 0) in_time = Clock::now() < deadline;
    ::close(handle);
    if (!in_time) ::kill(child, SIGKILL);
  }
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return in_time;
}

Expected<Board::State> calculate(const OracleCall& call, std::span<const OracleRow> rows,
                                 const SharedPages& pages) {
  const std::string what = fmt::format("{} of reference.cpp", call.function);
  Board& board = *new (&pages.board()) Board;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure("oracle", fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) Calculation(call, rows, pages).run(parent);
  int status = 0;
  if (!ended_in_time(child, status))
    return failure("oracle", fmt::format("{} did not finish within {:g} s", what, kMostSeconds));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
    return failure("oracle",
                   fmt::format("{} made a system call: it may only compute (no files, output, processes or "
                               "threads)",
                               what));
  if (WIFSIGNALED(status))
    return failure("oracle", fmt::format("{} crashed: {}", what, signal_name(WTERMSIG(status))));
  board.trouble[sizeof board.trouble - 1] = '\0';
  switch (const int state = board.state) {
    case Board::done:
    case Board::missing:
      return static_cast<Board::State>(state);
    case Board::not_loaded:
      return failure("oracle", fmt::format("cannot load the oracle: {}", board.trouble));
    case Board::threw:
      return failure("oracle", fmt::format("{} failed: {}", what, board.trouble));
    case Board::no_filter:
      return failure("oracle",
                     fmt::format("this system cannot isolate the oracle (seccomp): {}", board.trouble));
    default:
      return failure("oracle", what + " ended its process");
  }
}

}  // namespace

Expected<void> compute_apart(const OracleCall& call, std::span<const OracleRow> rows, std::span<double> out) {
  const SharedPages pages(sizeof(Board) + out.size() * sizeof(double));
  const auto state = calculate(call, rows, pages);
  if (!state) return tl::make_unexpected(state.error());
  if (*state == Board::missing)
    return failure("oracle", fmt::format("reference.cpp does not define {}", call.function));
  std::copy_n(pages.results(), out.size(), out.begin());
  return {};
}

Expected<bool> defines_apart(const OracleCall& call) {
  const SharedPages pages(sizeof(Board));
  const auto state = calculate(call, {}, pages);
  if (!state) return tl::make_unexpected(state.error());
  return *state == Board::done;
}

}  // namespace cultivar
