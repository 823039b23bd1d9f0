// SPDX-License-Identifier: Apache-2.0
// One GPU as opened by this process, and the judge's objects on it. Shared by the device and its sessions;
// not thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/run/device_memory.hpp"
#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/devices/cuda/run/kernel_trace.hpp"
#include "evaluators/devices/cuda/run/own_kernels.hpp"
#include "evaluators/devices/cuda/run/sensors.hpp"
#include "evaluators/devices/cuda/run/turns.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/system/process.hpp"

namespace cultivar::cuda {

// Host memory that the device reads and writes; kept until the process ends.
struct MappedMemory {
  void* host = nullptr;
  Address device = 0;
};

// What the judge's kernels detect in one run.
struct Findings {
  std::uint64_t sums[max_regions / 2] = {};  // checksums of the inputs
  std::uint64_t unwritten = 0;
  std::uint64_t low[max_regions] = {},
                high[max_regions] = {};  // for each guard; see OwnKernels::check_guards
};

// The judge's tools on one device, shared by all sessions.
struct Tools {
  MappedMemory flag;    // two u32: the token that releases the stream, and the token whose wait was abandoned
  MappedMemory stamps;  // before and after the run: two u64 for each multiprocessor
  MappedMemory findings;  // host copy
  DeviceMemory found;     // Findings
  Event begin = nullptr, end = nullptr;
  std::uint32_t token = 0;  // token of the last blocked launch
};

// Called around the launches of untimed runs: `before` when the device is idle, before the plan is queued;
// `after` when the plan has finished.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void before() = 0;
  virtual void after() = 0;
};

// It has more than 25 functions because it is the C++ form of the driver API that sessions need: one function
// for each operation, with the error as a value.
class Gpu {
 public:
  // Throws MissingError if the device does not exist or does not respond. `program` is the path of
  // cultivar-nvrtc.
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
  std::string uuid() const;  // identifies the card independently of its slot
  int capability() const { return attribute(attribute::major) * 10 + attribute(attribute::minor); }
  double default_clock_mhz() const;
  // The device facts for expressions and launch rules; see the row's facts (../traits.cpp).
  const Facts& facts() const { return facts_; }

  // Call after a fault that breaks the context or a kernel that does not finish: the device may not be used
  // any more.
  void lose() {
    lost_ = true;
    if (turns_) turns_->keep();
  }
  bool lost() const { return lost_; }

  // Hold a turn while running, allocating or loading anything for a candidate, so that no other worker's
  // sample is disturbed. Opening a context needs no turn: it takes half a second, mostly on the host.
  [[nodiscard]] Turns::Turn turn() { return turns_->take(); }
  Turns& turns() { return *turns_; }

  // Converts an error of a call to a Fault of the kernels that ran last.
  Fault fault_of(Result, const std::string& while_doing);
  // Waits until all queued work is done. Returns a Fault if it fails or misses the deadline.
  std::optional<Fault> wait(Clock::time_point deadline, const std::string& what);

  Residents& residents() { return residents_; }
  // Memory for all buffers of a session. Freeing takes milliseconds during which no worker can run, so the
  // memory of a finished session is kept for the next one of the same size. Contents are undefined. nullopt:
  // out of memory.
  std::optional<DeviceMemory> take_memory(std::size_t bytes);
  // The fault after `bytes` could not be allocated; see lack_of_memory.
  Fault lack_of_memory(std::size_t bytes, const std::string& what) const;
  std::size_t& allocated() { return allocated_; }  // bytes, counted by DeviceMemory
  void leave_memory(DeviceMemory memory) { left_ = std::move(memory); }
  // True if each piece of memory lies alone at a random address; see device_memory.hpp.
  bool maps_memory() const { return memory_grain_ != 0; }
  std::size_t memory_grain() const { return memory_grain_; }
  void allocate_plainly();  // for instruments, from now on

  // Overwrites the local memory that a kernel with `bytes` per thread can reach; queues one launch.
  Result scrub_local(std::uint32_t bytes, std::uint64_t seed) { return local_scrub_->scrub(bytes, seed); }
  // Compiles and loads what that needs, so that no run waits for it; throws MissingError.
  void prepare_local_scrub(std::uint32_t bytes) { local_scrub_->prepare(bytes); }

  Tools& tools() { return tools_; }
  // `watch` must live until it is replaced; nullptr: none.
  void set_watch(LaunchWatch* watch) { watch_ = watch; }
  LaunchWatch* watch() const { return watch_; }
  // A buffer of twice the L2 cache's size, for flushing the cache.
  const DeviceMemory& flush_memory();

 private:
  const Driver* driver_ = nullptr;
  DeviceHandle handle_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Event done_ = nullptr;
  bool lost_ = false;
  std::size_t allocated_ = 0;  // before all memory, which counts itself
  std::optional<Turns> turns_;
  Facts facts_;
  LaunchWatch* watch_ = nullptr;
  KernelTrace trace_;
  std::unique_ptr<Sensors> sensors_;
  std::unique_ptr<OwnKernels> kernels_;
  Residents residents_{*this};
  DeviceMemory left_;
  MappedMemory mapped(std::size_t bytes) const;
  void allocate_alone();
  std::size_t memory_grain_ = 0;
  std::unique_ptr<LocalScrub> local_scrub_;
  DeviceMemory flush_;
  Tools tools_;
};

}  // namespace cultivar::cuda
