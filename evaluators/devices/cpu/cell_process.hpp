// SPDX-License-Identifier: Apache-2.0
// The worker's side of a cell: starts it, has copies made of it (cell_layout.hpp), sends them requests, times
// them from outside, and describes how they died.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/devices/cpu/arena.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"

namespace cultivar {

// The threads of one copy of a cell, observed from outside through /proc. All threads start before candidate
// code is loaded and no more can be created, so they are listed once.
class CellThreads {  // not thread-safe
 public:
  CellThreads() = default;
  explicit CellThreads(int pid);
  // True when no thread runs or waits for a core, a page or a lock of the system's.
  bool asleep() const;

 private:
  class Descriptor;
  std::vector<std::shared_ptr<const Descriptor>> states_;
};

struct CellOptions {
  std::filesystem::path program;                    // cultivar-cell
  std::filesystem::path object;                     // the shared object with the kernels
  std::size_t memory_bytes = std::size_t{2} << 30;  // the candidate's limit, not counting its buffers
};

class UniqueDescriptor {
 public:
  explicit UniqueDescriptor(int number = -1) : number_(number) {}
  UniqueDescriptor(UniqueDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  UniqueDescriptor& operator=(UniqueDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~UniqueDescriptor();
  int number() const { return number_; }

 private:
  int number_;
};

// One completed request.
struct Ring {
  double wall_s =
      0.0;  // from the signal until the reply; for a run, until the copy could not compute any more
  bool settled = true;  // all threads slept when it was signaled
};

// Usage: start; then for each run order_copy, await_copy, ring(run). A run ends its copy, because
// whatever a candidate keeps in memory must not reach its next run, and because a process that is killed the
// moment it reports completion can neither go on computing nor begin before the next signal.
class CellProcess {  // not thread-safe
 public:
  using Explain = std::function<std::string(std::uint64_t address)>;

  // Returns when the original process of the cell waits for requests.
  static tl::expected<CellProcess, Fault> start(const CellOptions&, const Sandbox&, const cell::Job&,
                                                const Arena&, Clock::time_point deadline);
  // Sets the function that describes the cell's addresses in diagnostics.
  void set_explain(Explain explain) { explain_ = std::move(explain); }
  // Asks for a new copy, which starts meanwhile.
  enum class Loading { at_once, later };
  void order_copy(Loading);
  // Returns when the copy's threads wait: with the kernels loaded, or without any candidate code.
  tl::expected<void, Fault> await_copy(Clock::time_point deadline);
  // Loads the shared object (dlopen) into a copy that has not, then installs the final filter.
  tl::expected<void, Fault> load(Clock::time_point deadline);
  // Sets the addresses of the buffers for the next run.
  void set_addresses(const Arena&);
  // Waits until all threads of the copy sleep, sends a request and waits for the reply. For a run, kills the
  // copy at the reply, and returns when it is gone.
  tl::expected<Ring, Fault> ring(cell::Command, Clock::time_point deadline);

 private:
  CellProcess(ChildProcess, SharedMemory, UniqueDescriptor socket, const cell::Job&);
  cell::Control& control() const { return *reinterpret_cast<cell::Control*>(page_.data()); }
  bool settle(Clock::time_point deadline) const;
  bool hear(cell::Note::Kind, Clock::time_point deadline);
  void listen(int milliseconds);
  tl::expected<void, Fault> await(std::uint32_t number, Clock::time_point deadline);
  Fault timed_out();
  Fault died();
  Fault killed(int signal) const;  // by that signal, which another process sent

  ChildProcess process_;
  SharedMemory page_;
  UniqueDescriptor socket_;
  cell::Job job_;
  Explain explain_;
  int original_ = 0, copy_ = 0;    // process IDs as this process sees them
  std::optional<cell::Note> end_;  // how the copy ended
  std::string trouble_;            // what the copy said about it
  CellThreads threads_;            // of the copy
  std::uint32_t rings_ = 0;
  bool loaded_ = false;
  std::uint64_t memory_kills_before_ = out_of_memory_kills();
};

// CLOCK_MONOTONIC_RAW, which NTP does not slew.
double raw_seconds();

}  // namespace cultivar
