// SPDX-License-Identifier: Apache-2.0
// What a worker and its cell share. A cell has one original process, in which candidate code never lies, and
// for each run a copy of it (a fork), which loads the kernels, runs them once and is killed. So no memory of
// a candidate outlives a run: its heap, mappings, stacks, registers and our own data there end with the copy.
//
// The worker and the original talk through a socket (Note). The worker and a copy share a page: what to run,
// where it lies, and the futex words through which they signal each other. The worker writes the page anew
// before each copy and trusts nothing in it afterwards: it compares `done` with the number that it wrote to
// `ring`, and only shows `hint` to people.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cultivar::cell {

inline constexpr std::size_t max_buffers = 64, max_kernels = 16, max_arguments = 64, max_threads = 256,
                             name_bytes = 256;
inline constexpr std::size_t guard_bytes = std::size_t{1}
                                           << 20;  // of unmapped addresses on each side of a buffer

// File descriptors that the cell inherits at start.
inline constexpr int control_descriptor = 3, input_descriptor = 4, arena_descriptor = 5,
                     socket_descriptor = 6;

// A message through the socket to the worker; the operating system adds the sender's process ID. Each byte
// from the worker asks the original for the next copy; the end of the stream ends the original.
struct Note {
  enum class Kind : std::uint32_t {
    ready,   // from the original: it waits for requests
    copied,  // from a copy: it exists
    ended,   // from the original: the copy has ended, no thread of it is left
    trouble  // from a copy: why it ends, in `text`
  } kind = Kind::ready;
  std::int32_t code = 0, signal = 0;  // how the copy ended
  char text[500] = {};
};

struct Region {
  std::uint64_t address = 0;  // in the cell; page-aligned, with guards before and after
  std::uint64_t bytes = 0;    // whole pages
  std::uint64_t offset = 0;   // in its file
  std::uint32_t input = 0;    // 1: of the input file, mapped read-only
  std::uint64_t period = 0,
                repeats = 0;  // the first bytes that lie so many times one after the other; 0: none do
};

enum class Value : std::uint32_t { pointer, thread, threads, f64, f32, u64, i64, u32, i32, u16, i16, u8, i8 };

struct Argument {
  Value kind = Value::pointer;
  std::uint32_t buffer = 0;
  std::uint64_t bits = 0;  // a scalar, in the low bytes
};

struct Kernel {
  char name[name_bytes] = {};
  std::uint32_t threads = 1, argument_count = 0;
  Argument arguments[max_arguments] = {};
};

// Zeroed by the cell's threads before the first kernel, inside the timed region.
struct Zeroed {
  std::uint32_t buffer = 0;
  std::uint64_t bytes = 0;
};

struct Job {
  std::uint32_t threads = 1, region_count = 0, kernel_count = 0, zeroed_count = 0;
  std::uint32_t cores[max_threads] = {};
  Region regions[max_buffers];
  Zeroed zeroed[max_buffers];
  Kernel kernels[max_kernels];
};

enum class Command : std::uint32_t { nothing, run };

struct Hint {  // written by the cell's signal handler; the candidate may have forged it
  std::uint32_t signal = 0, system_call = 0, memory_exhausted = 0, near_stack = 0;
  std::int32_t code = 0;  // si_code
  std::uint64_t address = 0;
};

struct Control {
  Job job;
  // The worker writes these before it signals the cell.
  alignas(64) Command command = Command::nothing;
  std::uint64_t addresses[max_buffers] = {};       // where each buffer's data starts in this run
  alignas(64) std::atomic<std::uint32_t> ring{0};  // futex on which the cell's threads wait
  alignas(64) std::atomic<std::uint32_t> load{
      0};  // futex on which the cell's main thread waits: load the kernels
  alignas(64) std::atomic<std::uint32_t> done{
      0};  // futex on which the worker waits: the number of the last request answered
  alignas(64) Hint hint;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Values of `done` while a copy starts, before the first request.
inline constexpr std::uint32_t threads_ready = 0xfffffff1U, kernels_loaded = 0xfffffff2U;

// Exit codes of a cell that failed to start; its stderr holds the reason.
inline constexpr int exit_bad_start = 120, exit_load_failed = 121, exit_no_seccomp = 122,
                     exit_no_threads = 123;

// The program. `object` is the shared object with the kernels. Does not return before the worker is gone.
int run(const char* object);

}  // namespace cultivar::cell
