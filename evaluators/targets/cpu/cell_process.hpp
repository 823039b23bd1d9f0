// The worker's side of a cell: starts it, rings it, times it from outside, and says in words how it died.
#pragma once

#include <ctime>
#include <filesystem>
#include <functional>
#include <vector>

#include "evaluators/targets/cpu/arena.hpp"
#include "evaluators/targets/cpu/cell_threads.hpp"
#include "evaluators/targets/sandbox.hpp"
#include "evaluators/targets/target.hpp"
#include "evaluators/worker/process.hpp"

namespace cultivar {

struct CellOptions {
  std::filesystem::path program;                    // cultivar-cell
  std::filesystem::path object;                     // the kernels
  std::size_t memory_bytes = std::size_t{2} << 30;  // that a candidate may have besides its buffers
};

// One answered ring.
struct Ring {
  double wall_s = 0.0;    // until it said that it had finished
  double before_s = 0.0;  // CPU time used since it last slept: nobody had asked for it
  double after_s = 0.0;   // what it may have worked on after it said so: see CellProcess::ring
};

class CellProcess {  // not thread-safe
 public:
  using Explain = std::function<std::string(std::uint64_t address)>;

  // The cell's threads run, but no candidate code is loaded.
  static tl::expected<CellProcess, Fault> start(const CellOptions&, const Sandbox&, const cell::Job&,
                                                const Arena&, Clock::time_point deadline);
  // Puts addresses of the cell into words, for diagnostics.
  void set_explain(Explain explain) { explain_ = std::move(explain); }
  // dlopen, then the final filter.
  tl::expected<void, Fault> load(Clock::time_point deadline);
  // Where the buffers are in the next runs.
  void set_addresses(const Arena&);
  // Rings, waits for the answer, and then until all threads sleep again. `after_s` is the least that is
  // certain to be no less than the truth: the CPU time booked since the answer (which counts too much, since
  // the scheduler books a running thread's time late), or the wall time until all slept (too much on a busy
  // machine).
  tl::expected<Ring, Fault> ring(cell::Command, Clock::time_point deadline);

 private:
  CellProcess(ChildProcess, SharedMemory);
  cell::Control& control() const { return *reinterpret_cast<cell::Control*>(page_.data()); }
  double cpu_seconds() const;  // 0 when it is gone
  void settle(Clock::time_point deadline);
  tl::expected<void, Fault> await(std::uint32_t number, Clock::time_point deadline);
  Fault timed_out();
  Fault died();

  ChildProcess process_;
  SharedMemory page_;
  Explain explain_;
  clockid_t cpu_clock_ = 0;
  CellThreads threads_;
  double cpu_asleep_s_ = 0.0;  // the cell's CPU clock when all its threads last slept
  std::uint32_t rings_ = 0;
  bool loaded_ = false;
};

// CLOCK_MONOTONIC_RAW, which nobody slews.
double raw_seconds();

}  // namespace cultivar
