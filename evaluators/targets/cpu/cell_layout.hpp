// The page that a worker and its cell share: what to run, where it lies, and the words they ring each other
// with. The cell trusts what the worker wrote before the cell loaded any candidate code. The worker trusts
// nothing here: it compares `done` with the number it rang, and shows `hint` to people.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cultivar::cell {

inline constexpr std::size_t max_buffers = 64, max_kernels = 16, max_arguments = 64, max_threads = 256,
                             name_bytes = 256;
inline constexpr std::size_t guard_bytes = std::size_t{1}
                                           << 20;  // of unmapped addresses on each side of a buffer

// Descriptors that the cell is started with.
inline constexpr int control_descriptor = 3, input_descriptor = 4, arena_descriptor = 5;

struct Region {
  std::uint64_t address = 0;  // in the cell; page-aligned, guards lie before and after
  std::uint64_t bytes = 0;    // whole pages
  std::uint64_t offset = 0;   // in its file
  std::uint32_t input = 0;    // 1: of the input file, mapped read-only
};

enum class Value : std::uint32_t { pointer, thread, threads, f64, f32, u64, i64, u32, i32, u16, i16, u8, i8 };

struct Argument {
  Value kind = Value::pointer;
  std::uint32_t buffer = 0;
  std::uint64_t bits = 0;  // a scalar, in its low bytes
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

struct Hint {  // written by the cell's signal handler; may be a lie
  std::uint32_t signal = 0, system_call = 0, memory_exhausted = 0, near_stack = 0;
  std::int32_t code = 0;  // si_code
  std::uint64_t address = 0;
};

struct Control {
  Job job;
  // The worker writes these before it rings.
  alignas(64) Command command = Command::nothing;
  std::uint64_t addresses[max_buffers] = {};       // where each buffer's data starts in this run
  alignas(64) std::atomic<std::uint32_t> ring{0};  // futex of the cell's threads
  alignas(64) std::atomic<std::uint32_t> load{0};  // futex of the cell's main thread: load the kernels now
  alignas(64) std::atomic<std::uint32_t> done{0};  // futex of the worker: the ring that was answered
  alignas(64) Hint hint;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// `done` during the start, before the first ring.
inline constexpr std::uint32_t threads_ready = 0xfffffff1U, kernels_loaded = 0xfffffff2U;

// Exit codes of a cell that could not start; its stderr then says why.
inline constexpr int exit_bad_start = 120, exit_load_failed = 121, exit_no_seccomp = 122;

// The program: `object` is the kernels' shared object. Does not return in normal use: the worker kills it.
int run(const char* object);

}  // namespace cultivar::cell
