// SPDX-License-Identifier: Apache-2.0
// The interface of a device: what runs a binary (stages 3 to 9 and 11), in a device worker. Each kind of
// device is one folder beside this file. Devices live in worker programs, never in the engine.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/binary.hpp"
#include "evaluators/devices/ceilings.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct Fault {
  enum class Kind {
    load_failed,
    crashed,
    timed_out,
    forbidden_call,
    guard_overwritten,
    input_changed,
    idle_activity,
    out_of_memory,
    launch_failed,
    too_short,
    unsupported,       // a contender does not support this workload
    contender_failed,  // a contender reported a failure
    killed,            // from outside
    memory_limit,      // killed by the kernel for lack of memory
    memory_held        // other programs hold the device's memory
  } kind = Kind::crashed;
  std::string detail;  // a description with the signal, the buffer and offset, the system call, ...
};
std::string_view name_of(Fault::Kind);

// The plan with what the compiler decided of its launches.
Plan with_choices(Plan, const LaunchChoices&);

// The contents of one input tensor in one run. They may be a window of a longer stretch (a block of input
// data) that many runs share. The contents of a stretch with a given number never change, so a device may
// keep a copy and only move the window.
struct RunInput {
  std::span<const std::byte> bytes;
  std::uint64_t stretch = 0;              // 0: not shared with other runs
  std::span<const std::byte> whole = {};  // the whole stretch, which contains `bytes`
};

// The inputs of one run, in the order of the task's tensors. Refers to memory owned by the caller.
class RunInputs {
 public:
  RunInputs() = default;
  RunInputs(const std::vector<std::vector<std::byte>>& alone) {
    for (const std::vector<std::byte>& bytes : alone) inputs_.push_back({bytes});
  }
  RunInputs(std::vector<RunInput> inputs) : inputs_(std::move(inputs)) {}
  std::size_t size() const { return inputs_.size(); }
  const RunInput& operator[](std::size_t i) const { return inputs_.at(i); }

 private:
  std::vector<RunInput> inputs_;
};

struct ElementRange {
  std::int64_t first = 0, count = 0;
};

struct RunOptions {
  bool timed = false;  // flush caches first and use the device exclusively
  // Determines the random pattern in outputs and workspaces; with this bit set, every element of the pattern
  // is NaN (read as an integer: large), so that 0 times an uninitialised value is seen. Timed runs have both
  // kinds too, so that no kernel can tell a checked run by its poison.
  std::uint64_t poison_seed = 0;
  static constexpr std::uint64_t nan_poison = std::uint64_t{1} << 63;
  // Another seed of the same kind.
  static std::uint64_t same_poison(std::uint64_t seed, std::uint64_t other) {
    return (other & ~nan_poison) | (seed & nan_poison);
  }
  std::uint64_t placement = 0;  // of a run that is not timed: selects where buffers lie, of a few ways
  double deadline_s = 10.0;
  // The elements to copy back, by output, in ascending order; none for an output: all of them. Other
  // elements of `outputs` may stay unchanged, so that a large device need not transfer what nobody reads.
  std::span<const std::vector<ElementRange>> wanted = {};
};

// A tensor of a plan whose first `period` bytes lie `repeats` times, one after the other, in its address
// range, all of which show the same memory; the bytes behind them have their own. A run's inputs and outputs
// hold the period once, then those bytes. The period is a multiple of Device::least_period().
struct Repetition {
  std::size_t buffer = 0;
  std::uint64_t period = 0, repeats = 0;
};

// One variant on one workload on one device: buffers placed and guarded, code loaded. Not thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Writes the inputs, poisons outputs and workspaces with a random pattern, runs the whole plan once,
  // times it from outside, checks guards and that inputs are unchanged, and copies the outputs out. `inputs`
  // and `outputs` follow the task's tensors of that role, in order; an output that is too small is enlarged.
  // After a Fault the session cannot be used again.
  virtual tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                          const RunOptions&) = 0;
  // How many groups of 8 bytes of the outputs still hold this run's poison; call after run().
  virtual std::size_t unwritten_elements() const = 0;
};

struct ContenderFile;      // contenders/catalogue.hpp
struct ContenderSettings;  // the same
class Instruments;         // instruments.hpp
struct Profile;            // profile/profile.hpp

class Device {  // not thread-safe
 public:
  virtual ~Device() = default;
  virtual const Facts& facts() const = 0;
  virtual DeviceInfo info() const = 0;     // all but the ceilings
  virtual const Ceilings& ceilings() = 0;  // measured once, then cached
  // Measures again and keeps the greater of each value: rates measured on a busy machine are too low.
  virtual const Ceilings& raise_ceilings() { return ceilings(); }
  tl::expected<std::unique_ptr<Session>, Fault> open(const Binary& binary, const Plan& plan,
                                                     double deadline_s) {
    return open_repeating(binary, plan, {}, deadline_s);
  }
  virtual std::size_t least_period() const { return 0; }  // of a Repetition, in bytes; 0: none can be had
  // A session for more elements than memory holds: some tensors repeat. Not for timing.
  virtual tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary&, const Plan&,
                                                                       std::span<const Repetition>,
                                                                       double deadline_s) = 0;
  // Opens a contender's library on one workload; its tensors are placed, guarded and timed as a variant's
  // are. The library is the user's own code and runs in this process: if it crashes, so does the worker.
  virtual tl::expected<std::unique_ptr<Session>, Fault> open_contender(const ContenderFile&,
                                                                       const ContenderSettings&, const Task&,
                                                                       const Workload&);
  // False after a fault from which this process cannot recover (a GPU context is lost). The worker then
  // answers the request and exits, and a new worker replaces it.
  virtual bool usable() const { return true; }
  // Sets a function to call at intervals while the device serves another worker, which may take minutes.
  virtual void while_waiting(std::function<void()>) {}
  // True gives this worker priority over other workers that share the device and have no priority themselves.
  virtual void hasten(bool) {}
  // True if the device keeps stretches (see RunInput) in its own memory: it can move a window at no cost, but
  // would have to copy new inputs to its memory for each run.
  virtual bool keeps_stretches() const { return false; }
  // True if runs leave the host's cores free, so that the judge may compute at the same time.
  virtual bool apart_from_host() const { return false; }
  // What is known of a compiled plan without running it, for its profile. `source`: the variant's.
  virtual void describe(const Binary&, const Plan&, std::string_view /*source*/, Profile&) const {}
  // Measures how long moving that many bytes takes, with all of the device. All 0: this target does not tell.
  // Throws MissingError when it cannot be measured.
  virtual Traffic traffic(double /*read_bytes*/, double /*written_bytes*/) { return {}; }
  // Why the clock was slowed, in words, by the bits of Sample::throttle.
  virtual std::string throttle_words(std::uint64_t) const { return {}; }
  // Counters and samples; nullptr if this target has none. Lives as long as the device.
  virtual Instruments* instruments() { return nullptr; }
};

}  // namespace cultivar
