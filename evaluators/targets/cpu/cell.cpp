// The program that runs inside a cell. It shares its address space with the candidate, so no verdict relies
// on it: the worker does the timing, the checks and the verdicts. Protection against a hostile candidate
// comes from what the operating system enforces: the seccomp filter, the limits, the namespaces and the
// read-only inputs.
#include <dlfcn.h>
#include <fcntl.h>
#include <ffi.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "evaluators/system/file_access_rules.hpp"
#include "evaluators/targets/cpu/cell_clocks.hpp"
#include "evaluators/targets/cpu/cell_filter.hpp"
#include "evaluators/targets/cpu/cell_layout.hpp"

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

// Each process is one cell, so globals are enough; the signal handler needs them.
Control* control = nullptr;
Job job;
LoadedKernel kernels[max_kernels];
Barrier barrier;
Word arrived{0};
// Allows no access to files. Null where the kernel has no Landlock: then only the filter forbids opening any.
const FileAccessRules* no_files = nullptr;

[[noreturn]] void give_up(int code, const char* what, const char* detail = "") {
  std::fprintf(stderr, "%s%s%s\n", what, *detail ? ": " : "", detail);
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
  void* mapped =
      ::mmap(start, region.bytes, region.input ? PROT_READ : PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, region.input ? input_descriptor : arena_descriptor,
             static_cast<off_t>(region.offset));
  if (mapped != start) give_up(exit_bad_start, "a buffer cannot be mapped", std::strerror(errno));
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

void* serve(void* argument) {
  const auto thread = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(argument));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(job.cores[thread], &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
  own_signal_stack();
  if (no_files) no_files->enclose_this_thread();  // the main thread still has to read the kernels
  std::uint32_t seen = control->ring.load();
  arrive(threads_ready);
  for (;;) {
    while (control->ring.load() == seen) futex_wait(control->ring, seen);
    seen = control->ring.load();
    if (control->command == Command::run) run_plan(thread);
    arrive(seen);
  }
  return nullptr;
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
  for (std::uint32_t i = 0; i < job.region_count; ++i) map_region(job.regions[i]);
  handle_signals();
  own_signal_stack();
  const auto rules = FileAccessRules::make({}, {});
  if (rules) no_files = &*rules;

  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, std::size_t{16} << 20);
  for (std::uint32_t i = 0; i < job.threads; ++i) {
    pthread_t thread;
    const int error =
        ::pthread_create(&thread, &attributes, serve, reinterpret_cast<void*>(std::uintptr_t{i}));
    if (error != 0) give_up(exit_bad_start, "cannot start a thread", std::strerror(error));
  }

  while (control->load.load() == 0) futex_wait(control->load, 0);
  if (!lock_for_loading()) give_up(exit_no_seccomp, "the kernel refuses seccomp filters");
  load_kernels(object);
  if (no_files) no_files->enclose_this_thread();
  std::fflush(nullptr);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  if (!lock_for_running()) std::_Exit(exit_no_seccomp);
  answer(kernels_loaded);
  for (Word never{0};;) futex_wait(never, 0);
}

}  // namespace cultivar::cell
