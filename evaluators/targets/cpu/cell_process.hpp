// The worker's side of a cell: starts it, sends it requests, times it from outside, and describes how it
// died.
#pragma once

#include <ctime>
#include <filesystem>
#include <functional>
#include <vector>

#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"
#include "evaluators/targets/cpu/arena.hpp"
#include "evaluators/targets/cpu/cell_threads.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar {

struct CellOptions {
  std::filesystem::path program;                    // cultivar-cell
  std::filesystem::path object;                     // the shared object with the kernels
  std::size_t memory_bytes = std::size_t{2} << 30;  // the candidate's limit, not counting its buffers
};

// The times of one completed request.
struct Ring {
  double wall_s = 0.0;    // until the cell reported completion
  double before_s = 0.0;  // CPU time used since the cell last slept, before this request: unrequested work
  double after_s = 0.0;   // upper bound on work done after it reported completion; see CellProcess::ring
};

class CellProcess {  // not thread-safe
 public:
  using Explain = std::function<std::string(std::uint64_t address)>;

  // Returns when the cell's threads run but no candidate code is loaded.
  static tl::expected<CellProcess, Fault> start(const CellOptions&, const Sandbox&, const cell::Job&,
                                                const Arena&, Clock::time_point deadline);
  // Sets the function that describes the cell's addresses in diagnostics.
  void set_explain(Explain explain) { explain_ = std::move(explain); }
  // Loads the shared object (dlopen), then installs the final filter.
  tl::expected<void, Fault> load(Clock::time_point deadline);
  // Sets the addresses of the buffers for the following runs.
  void set_addresses(const Arena&);
  // Sends a request, waits for the reply, and then waits until all threads sleep. `after_s` is the smaller of
  // two upper bounds on the work done after the reply: the CPU time booked since the reply (too high, because
  // the scheduler books a running thread's time late) and the wall time until all threads slept (too high on
  // a busy machine).
  tl::expected<Ring, Fault> ring(cell::Command, Clock::time_point deadline);

 private:
  CellProcess(ChildProcess, SharedMemory);
  cell::Control& control() const { return *reinterpret_cast<cell::Control*>(page_.data()); }
  double cpu_seconds() const;  // 0 if the process has ended
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

// CLOCK_MONOTONIC_RAW, which NTP does not slew.
double raw_seconds();

}  // namespace cultivar
