// SPDX-License-Identifier: Apache-2.0
// The program that runs inside a cell. It shares its address space with the candidate, so no verdict relies
// on it: the worker does the timing, the checks and the verdicts. Protection against a hostile candidate
// comes from what the operating system enforces: the seccomp filter, the limits, the namespaces and the
// read-only inputs.
#include <dlfcn.h>
#include <fcntl.h>
#include <ffi.h>
#include <link.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "evaluators/devices/cpu/cell_layout.hpp"
#include "evaluators/devices/cpu/cell_walls.hpp"
#include "evaluators/system/privileges.hpp"

namespace cultivar::cell {
namespace {

using Word = std::atomic<std::uint32_t>;

void futex_wait(Word& word, std::uint32_t value) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void futex_wake(Word& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Synchronizes threads between the kernels of a plan. Spins briefly, because threads finish close together,
// then sleeps.
class Barrier {
 public:
  void wait(std::uint32_t threads) {
    const std::uint32_t phase = phase_.load();
    if (arrived_.fetch_add(1) + 1 == threads) {
      arrived_.store(0);
      phase_.store(phase + 1);
      futex_wake(phase_);
      return;
    }
    for (int i = 0; i < 2000 && phase_.load(std::memory_order_relaxed) == phase; ++i) pause_core();
    while (phase_.load() == phase) futex_wait(phase_, phase);
  }

 private:
  alignas(64) Word arrived_{0};
  alignas(64) Word phase_{0};
};

struct LoadedKernel {
  void (*function)() = nullptr;
  ffi_cif frame{};
  ffi_type* types[max_arguments] = {};
};

// Each process is one cell or a copy of it, so globals are enough; the signal handler needs them.
Control* control = nullptr;
Job job;
LoadedKernel kernels[max_kernels];
Barrier barrier;
Word arrived{0}, started{0};
// Allows no access to files. Null where the kernel has no Landlock: then only the filter forbids opening any.
const FileAccessRules* no_files = nullptr;

bool tell(const Note& note) {
  // Not send(): while it loads kernels, a copy may write but not send.
  return ::write(socket_descriptor, &note, sizeof note) == static_cast<ssize_t>(sizeof note);
}

[[noreturn]] void give_up(int code, const char* what, const char* detail = "") {
  Note note{Note::Kind::trouble, 0, 0, {}};
  std::snprintf(note.text, sizeof note.text, "%s%s%s", what, *detail ? ": " : "", detail);
  if (!tell(note)) std::fprintf(stderr, "%s\n", note.text);
  std::_Exit(code);
}

std::uint64_t stack_pointer([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<std::uint64_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.sp;
#else
  return 0;
#endif
}

// Tells the worker the cause, for its diagnostics, and ends the process. If several threads fault, the first
// one reports.
void on_signal(int number, siginfo_t* info, [[maybe_unused]] void* context) {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) pause_core();
  Hint& hint = control->hint;
  hint.code = info->si_code;
  if (number == SIGSYS) {
    hint.system_call = static_cast<std::uint32_t>(info->si_syscall);
  } else {
    hint.address = reinterpret_cast<std::uint64_t>(info->si_addr);
    hint.near_stack = hint.address - stack_pointer(context) + (64 << 10) < (128 << 10);
    // malloc returning null and a null pointer of the kernel's own look alike, so record whether memory is
    // left.
    hint.memory_exhausted =
        ::mmap(nullptr, std::size_t{64} << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
  }
  hint.signal = static_cast<std::uint32_t>(number);
  fatal_call();
}

void handle_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    ::sigaction(number, &action, nullptr);
}

// A separate signal stack: a stack overflow in the kernel must still be reported.
void own_signal_stack() {
  const std::size_t bytes = 64 << 10;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = bytes;
  ::sigaltstack(&stack, nullptr);
}

void map_region(const Region& region) {
  char* const start = reinterpret_cast<char*>(region.address);
  void* reserved = ::mmap(start - guard_bytes, region.bytes + 2 * guard_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != start - guard_bytes) give_up(exit_bad_start, "the address of a buffer is already in use");
  const auto map = [&](char* at, std::uint64_t bytes, std::uint64_t offset) {
    void* mapped = ::mmap(at, bytes, region.input ? PROT_READ : PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                          region.input ? input_descriptor : arena_descriptor, static_cast<off_t>(offset));
    if (mapped != at) give_up(exit_bad_start, "a buffer cannot be mapped", std::strerror(errno));
  };
  const std::uint64_t repeated = region.period * region.repeats;
  for (std::uint64_t i = 0; i < region.repeats; ++i)
    map(start + i * region.period, region.period, region.offset);
  if (region.bytes > repeated) map(start + repeated, region.bytes - repeated, region.offset + region.period);
}

ffi_type* type_of(Value kind) {
  ffi_type* const types[] = {&ffi_type_pointer, &ffi_type_sint32, &ffi_type_sint32, &ffi_type_double,
                             &ffi_type_float,   &ffi_type_uint64, &ffi_type_sint64, &ffi_type_uint32,
                             &ffi_type_sint32,  &ffi_type_uint16, &ffi_type_sint16, &ffi_type_uint8,
                             &ffi_type_sint8};  // in the order of Value
  if (static_cast<std::size_t>(kind) >= std::size(types))
    give_up(exit_bad_start, "an argument has an unknown type");
  return types[static_cast<std::size_t>(kind)];
}

void load_kernels(const char* object) {
  void* library = ::dlopen(object, RTLD_NOW | RTLD_LOCAL);
  if (!library) give_up(exit_load_failed, ::dlerror());
  for (std::uint32_t k = 0; k < job.kernel_count; ++k) {
    const Kernel& kernel = job.kernels[k];
    void* symbol = ::dlsym(library, kernel.name);
    if (!symbol) give_up(exit_load_failed, "the kernel is missing", kernel.name);
    std::memcpy(&kernels[k].function, &symbol, sizeof symbol);
    for (std::uint32_t a = 0; a < kernel.argument_count; ++a)
      kernels[k].types[a] = type_of(kernel.arguments[a].kind);
    if (::ffi_prep_cif(&kernels[k].frame, FFI_DEFAULT_ABI, kernel.argument_count, &ffi_type_void,
                       kernels[k].types) != FFI_OK)
      give_up(exit_bad_start, "cannot prepare the call of the kernel", kernel.name);
  }
}

void call(std::uint32_t k, std::uint32_t thread) {
  const Kernel& kernel = job.kernels[k];
  std::uint64_t values[max_arguments];
  void* pointers[max_arguments];
  for (std::uint32_t a = 0; a < kernel.argument_count; ++a) {
    const Argument& argument = kernel.arguments[a];
    values[a] = argument.kind == Value::pointer   ? control->addresses[argument.buffer]
                : argument.kind == Value::thread  ? thread
                : argument.kind == Value::threads ? kernel.threads
                                                  : argument.bits;
    pointers[a] = &values[a];
  }
  ::ffi_call(&kernels[k].frame, kernels[k].function, nullptr, pointers);
}

void run_plan(std::uint32_t thread) {
  if (job.zeroed_count > 0) {
    for (std::uint32_t z = 0; z < job.zeroed_count; ++z) {
      const std::uint64_t share = (job.zeroed[z].bytes / job.threads + 64) & ~std::uint64_t{63};
      const std::uint64_t begin = share * thread;
      if (begin >= job.zeroed[z].bytes) continue;
      const std::uint64_t left = job.zeroed[z].bytes - begin;
      std::memset(reinterpret_cast<char*>(control->addresses[job.zeroed[z].buffer]) + begin, 0,
                  left < share ? left : share);
    }
    barrier.wait(job.threads);
  }
  for (std::uint32_t k = 0; k < job.kernel_count; ++k) {
    if (thread < job.kernels[k].threads) call(k, thread);
    if (k + 1 < job.kernel_count) barrier.wait(job.threads);
  }
}

void answer(std::uint32_t ring) {
  control->done.store(ring);
  futex_wake(control->done);
}

void arrive(std::uint32_t ring) {
  if (arrived.fetch_add(1) + 1 != job.threads) return;
  arrived.store(0);
  answer(ring);
}

// A copy starts with almost empty page tables. What every run needs is brought in before the run starts, so
// that these faults are not timed: the kernels' code and constants, and the upper part of the stacks. The
// stacks are cleared, because earlier calls left thread and process numbers there, which count the runs.
constexpr std::size_t thread_stack = std::size_t{256} << 10, main_stack = std::size_t{64} << 10,
                      least_page = 4096;

template <std::size_t bytes>
[[gnu::noinline]] void clear_stack() {
  volatile std::uint64_t part[bytes / sizeof(std::uint64_t)];
  for (volatile std::uint64_t& word : part) word = 0;
}

// Under nested virtualization, a process's first access to a page costs microseconds even if the page is
// mapped. Each thread makes it for its share. The worker may be writing meanwhile: nothing is overwritten.
void touch_buffers(std::uint32_t thread) {
  for (std::uint32_t i = 0; i < job.region_count; ++i) {
    const Region& region = job.regions[i];
    if (region.repeats > 0) continue;  // runs with such regions are not timed
    char* const start = reinterpret_cast<char*>(region.address);
    for (std::size_t at = thread * least_page; at < region.bytes; at += job.threads * least_page)
      if (region.input)
        (void)static_cast<const volatile char*>(start)[at];
      else
        __atomic_fetch_add(start + at, 0, __ATOMIC_RELAXED);
  }
}

int touch_if_kernels(dl_phdr_info* library, std::size_t, void* base) {
  if (library->dlpi_addr != reinterpret_cast<ElfW(Addr)>(base)) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0) continue;
    const auto* const start = reinterpret_cast<const volatile char*>(library->dlpi_addr + segment.p_vaddr);
    for (std::size_t at = 0; at < segment.p_filesz; at += least_page) (void)start[at];
  }
  return 1;
}

void touch_kernels() {
  Dl_info place{};
  void* symbol = nullptr;
  std::memcpy(&symbol, &kernels[0].function, sizeof symbol);
  if (::dladdr(symbol, &place) != 0) ::dl_iterate_phdr(touch_if_kernels, place.dli_fbase);
}

// The C library keeps each thread's number in the thread's descriptor, in a field whose place differs between
// versions. The number grows from copy to copy, so a candidate could read there how many runs came before.
// Nothing that candidates may call uses it.
class ThreadNumber {
 public:
  // In the main thread, before the others start: notes the fields that hold its number.
  void look() {
    const auto number = static_cast<std::uint32_t>(::gettid());
    for (std::size_t i = 0; i < fields; ++i) possible_[i] = field(i) == number;
  }
  // In each other thread. A field that holds the right number in two threads does not do so by chance.
  void hide() {
    const auto number = static_cast<std::uint32_t>(::gettid());
    for (std::size_t i = 0; i < fields; ++i) {
      if (!possible_[i] || field(i) != number) continue;
      field(i) = 1;
      place_.store(static_cast<std::uint32_t>(i));
    }
  }
  // In the main thread, when the others have started.
  void hide_last() {
    if (place_.load() < fields) field(place_.load()) = 1;
  }

 private:
  static constexpr std::uint32_t fields = 256;  // the descriptor is larger
  static volatile std::uint32_t& field(std::size_t i) {
    return reinterpret_cast<volatile std::uint32_t*>(::pthread_self())[i];
  }

  bool possible_[fields] = {};
  std::atomic<std::uint32_t> place_{fields};
};
ThreadNumber thread_number;

void stay_on_core(std::uint32_t core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

void* serve(void* argument) {
  const auto thread = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(argument));
  stay_on_core(job.cores[thread]);
  own_signal_stack();
  thread_number.hide();
  if (no_files) no_files->enclose_this_thread();  // the main thread still has to read the kernels
  clear_stack<thread_stack>();
  touch_buffers(thread);
  std::uint32_t seen = control->ring.load();
  started.fetch_add(1);
  futex_wake(started);
  for (;;) {
    while (control->ring.load() == seen) futex_wait(control->ring, seen);
    seen = control->ring.load();
    if (control->command == Command::run) run_plan(thread);
    arrive(seen);
  }
  return nullptr;
}

// A copy: starts the threads, loads the kernels when the worker asks for it, and runs them when it rings.
[[noreturn]] void serve_as_copy(const char* object) {
  if (!tell({Note::Kind::copied, 0, 0, {}})) std::_Exit(exit_bad_start);
  for (std::uint32_t i = 0; i < job.region_count; ++i) map_region(job.regions[i]);

  thread_number.look();
  stay_on_core(job.cores[0]);  // a candidate can take this thread over, and may not have other cores
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, std::size_t{16} << 20);
  for (std::uint32_t i = 0; i < job.threads; ++i) {
    pthread_t thread;
    const int error =
        ::pthread_create(&thread, &attributes, serve, reinterpret_cast<void*>(std::uintptr_t{i}));
    if (error != 0)
      give_up(error == EAGAIN ? exit_no_threads : exit_bad_start, "cannot start a thread",
              std::strerror(error));
  }

  for (std::uint32_t count = 0; (count = started.load()) < job.threads;) futex_wait(started, count);
  answer(threads_ready);
  while (control->load.load() == 0) futex_wait(control->load, 0);
  if (!lock_for_loading()) give_up(exit_no_seccomp, "the kernel refuses seccomp filters");
  load_kernels(object);
  if (no_files) no_files->enclose_this_thread();
  touch_kernels();
  thread_number.hide_last();
  clear_stack<main_stack>();
  std::fflush(nullptr);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  if (!lock_for_running()) std::_Exit(exit_no_seccomp);
  answer(kernels_loaded);
  for (Word never{0};;) futex_wait(never, 0);
}

// Waits until the copy ends, and leaves its process ID in use.
[[gnu::noinline]] Note end_of(pid_t copy) {
  Note note{Note::Kind::ended, 0, 0, {}};
  siginfo_t how{};
  while (::waitid(P_PID, static_cast<id_t>(copy), &how, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  note.code = how.si_code == CLD_EXITED ? how.si_status : 0;
  note.signal = how.si_code == CLD_EXITED ? 0 : how.si_status;
  return note;
}

// Makes a copy and returns when it has ended. Not inlined: what it leaves on the stack tells of this copy,
// and the next one is made after the stack was cleared.
[[gnu::noinline]] bool serve_one_copy(const char* object, pid_t original, pid_t& copy) {
  copy = ::fork();
  if (copy == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != original) std::_Exit(exit_bad_start);
    serve_as_copy(object);
  }
  if (copy > 0) return tell(end_of(copy));
  Note note{Note::Kind::ended, exit_bad_start, 0, {}};
  std::snprintf(note.text, sizeof note.text, "cannot fork: %s", std::strerror(errno));
  return tell(note);
}

// What libc asks of the system the first time only, and may not ask while a kernel runs: qsort of larger
// arrays asks for the memory's size; malloc in many threads for the number of cores; and free in a thread,
// when it gives memory back, for the policy of overcommitment.
void prepare_library() {
  int numbers[1024] = {};
  std::qsort(numbers, std::size(numbers), sizeof(int),
             [](const void* a, const void* b) { return std::memcmp(a, b, sizeof(int)); });
  ::mallopt(M_ARENA_MAX, 64);
  // A kernel that expects zeros of malloc is wrong. In every run, so that none can be told from another.
  constexpr int kMemoryByte = 0x80;  // new memory is filled with its complement
  ::mallopt(M_PERTURB, kMemoryByte);
  const auto give_back = [](void*) -> void* {
    volatile char* blocks[8];
    for (volatile char*& block : blocks)
      if (block = static_cast<volatile char*>(std::malloc(100'000)); block != nullptr) *block = 1;
    for (volatile char* block : blocks) std::free(const_cast<char*>(block));
    return nullptr;
  };
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, give_back, nullptr) == 0) ::pthread_join(thread, nullptr);
}

// The original: makes a copy for each byte that it receives, and tells how it ended. The ended copy keeps its
// process ID until the next request, so that the worker never signals another process.
[[noreturn]] void serve_as_original(const char* object) {
  const pid_t original = ::getpid();
  pid_t copy = 0;
  for (char request = 0;;) {
    if (::recv(socket_descriptor, &request, 1, 0) != 1) std::_Exit(0);
    if (copy > 0) ::waitpid(copy, nullptr, 0);
    copy = 0;
    clear_stack<main_stack>();
    if (!serve_one_copy(object, original, copy)) std::_Exit(0);
  }
}

}  // namespace

int run(const char* object) {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    give_up(exit_no_seccomp, "cannot set no_new_privs", std::strerror(errno));
  if (const char* trouble = take_clocks_away()) give_up(exit_bad_start, "cannot hide the clocks", trouble);
  void* page = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, control_descriptor, 0);
  if (page == MAP_FAILED)
    give_up(exit_bad_start, "cannot map the control page: cultivar-cell is started by a worker, not by hand");
  control = static_cast<Control*>(page);
  std::memcpy(&job, &control->job, sizeof job);
  handle_signals();
  own_signal_stack();
  prepare_library();
  const auto rules = FileAccessRules::make({}, {});
  if (rules) no_files = &*rules;
  if (!tell({Note::Kind::ready, 0, 0, {}})) std::_Exit(exit_bad_start);
  serve_as_original(object);
}

}  // namespace cultivar::cell
