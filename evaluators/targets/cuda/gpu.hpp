// One GPU as this process has opened it, and what the judge keeps there. Device and sessions share it; not
// thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/targets/cuda/device_memory.hpp"
#include "evaluators/targets/cuda/driver.hpp"
#include "evaluators/targets/cuda/kernel_trace.hpp"
#include "evaluators/targets/cuda/own_kernels.hpp"
#include "evaluators/targets/cuda/residents.hpp"
#include "evaluators/targets/cuda/sensors.hpp"
#include "evaluators/targets/cuda/turns.hpp"
#include "evaluators/targets/target.hpp"
#include "evaluators/worker/process.hpp"

namespace cultivar::cuda {

// Host memory that the device reads and writes; kept until the process ends.
struct MappedMemory {
  void* host = nullptr;
  Address device = 0;
};

// What the judge's kernels find out in one run.
struct Findings {
  std::uint64_t sums[max_regions / 2] = {};  // of the inputs
  std::uint64_t unwritten = 0;
  std::uint64_t low[max_regions] = {}, high[max_regions] = {};  // of each guard: see OwnKernels::check_guards
};

// The judge's tools on one device; whichever session runs uses them.
struct Tools {
  MappedMemory flag;      // two u32: the token that releases the stream, and the one that was not waited for
  MappedMemory stamps;    // before and after: two u64 for each multiprocessor
  MappedMemory findings;  // host copy
  DeviceMemory found;     // Findings
  Event begin = nullptr, end = nullptr;
  std::uint32_t token = 0;  // of the last blocked launch
};

// Told of the launches of runs that are not timed: `before` the plan is queued, on an idle device, and
// `after` it has ended.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void before() = 0;
  virtual void after() = 0;
};

class Gpu {
 public:
  // Throws MissingError when there is no such device, or it does not answer. `program`: cultivar-nvrtc.
  Gpu(int index, const std::filesystem::path& cache, const std::filesystem::path& program);
  Gpu(const Gpu&) = delete;

  const Driver& driver() const { return *driver_; }
  Stream stream() const { return stream_; }
  Context context() const { return context_; }
  int index() const { return handle_; }
  const OwnKernels& kernels() const { return *kernels_; }
  const Sensors& sensors() const { return *sensors_; }
  KernelTrace& trace() { return trace_; }
  const std::string& trace_obstacle() const { return trace_.obstacle(); }
  int attribute(int which) const;
  std::string name() const;
  std::string bus_id() const;
  std::string uuid() const;  // of the card, wherever it is plugged in
  int capability() const { return attribute(attribute::major) * 10 + attribute(attribute::minor); }
  double default_clock_mhz() const;
  // What expressions and launch rules ask of a card: see facts_of(TargetKind::cuda).
  const Facts& facts() const { return facts_; }

  // A fault that kills the context, or a kernel that does not end: nothing may be asked of the device any
  // more.
  void lose() {
    lost_ = true;
    if (turns_) turns_->keep();
  }
  bool lost() const { return lost_; }

  // Whatever runs, allocates or loads for a candidate holds one, so that no other worker's sample is
  // disturbed by it. Opening a context does not: it takes half a second, mostly the host's.
  [[nodiscard]] Turns::Turn turn() { return turns_->take(); }
  Turns& turns() { return *turns_; }

  // What a failed call means for whoever's kernels ran last.
  Fault fault_of(Result, const std::string& while_doing);
  // Waits for all that is queued. A Fault when it fails, or is not done by then.
  std::optional<Fault> wait(Clock::time_point deadline, const std::string& what);

  Residents& residents() { return residents_; }
  // For all buffers of a session. Freeing takes milliseconds, in which nobody else runs: what one session
  // leaves is kept for the next of the same size. Its contents are whatever they were. nullopt: no memory.
  std::optional<DeviceMemory> take_memory(std::size_t bytes);
  void leave_memory(DeviceMemory memory) { left_ = std::move(memory); }

  Tools& tools() { return tools_; }
  // Lives until it is replaced; nullptr: nobody.
  void set_watch(LaunchWatch* watch) { watch_ = watch; }
  LaunchWatch* watch() const { return watch_; }
  // Twice the L2 cache, for flushing it.
  const DeviceMemory& flush_memory();

 private:
  const Driver* driver_ = nullptr;
  DeviceHandle handle_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Event done_ = nullptr;
  bool lost_ = false;
  std::optional<Turns> turns_;
  Facts facts_;
  LaunchWatch* watch_ = nullptr;
  KernelTrace trace_;
  std::unique_ptr<Sensors> sensors_;
  std::unique_ptr<OwnKernels> kernels_;
  Residents residents_{*this};
  DeviceMemory left_;
  MappedMemory mapped(std::size_t bytes) const;
  DeviceMemory flush_;
  Tools tools_;
};

}  // namespace cultivar::cuda
