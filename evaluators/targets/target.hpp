// What a device is to the cascade. A target is one folder beside this file: it compiles variants and runs
// them. Everything here lives in a worker program, never in the engine.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// --- Compile (stages 1 and 2), in a compile worker. ---

struct Binary {
  std::filesystem::path path;  // content-addressed, in the cache
  std::string machine_code;    // hash of the code alone: equal for equal kernels
  std::vector<std::string> macros;
  Resources resources;
  std::string log;  // warnings, as the compiler printed them
};

struct CompileFailure {
  Stage stage = Stage::compile;  // or screen
  std::string reason, diagnostics;
  bool late = false;  // the compiler was killed at its deadline
};

class Compiler {  // thread-safe
 public:
  virtual ~Compiler() = default;
  // The exact compiler and flags: part of every cache key and of the record's environment.
  virtual std::string identity() const = 0;
  virtual std::string isolation() const = 0;  // where the compiler runs, in words
  virtual std::string weakness()
      const = 0;  // what it could read that it should not, and a remedy; empty: nothing
  virtual tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                                       double deadline_s) = 0;
};

// --- Run (stages 3 to 9 and 11), in a device worker. ---

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
    unsupported,      // a contender does not take this workload
    contender_failed  // and says so itself
  } kind = Kind::crashed;
  std::string detail;  // in words, with the signal, the buffer and offset, the system call, ...
};
std::string_view name_of(Fault::Kind);

// What one input tensor holds in one run. It may be a window of a longer stretch that many runs share: a
// stretch's contents never change under one number, so that a device may keep a copy and only move the
// window.
struct RunInput {
  std::span<const std::byte> bytes;
  std::uint64_t stretch = 0;              // 0: shared with no other run
  std::span<const std::byte> whole = {};  // the stretch; `bytes` lies in it
};

// The inputs of one run, in the order of the task's tensors. Refers to memory of the caller's.
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

struct RunOptions {
  bool timed = false;  // flush caches first, take the device for oneself
  std::uint64_t poison_seed = 0;
  double deadline_s = 10.0;
  // By output, in ascending order: the elements that must come back. Empty: all of all. The rest of `outputs`
  // may be left as it was, so that a large device need not send what nobody reads.
  std::span<const std::vector<std::int64_t>> wanted = {};
};

// One variant bound to one workload on one device: buffers placed, guarded, code loaded. Not thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Writes the inputs, poisons outputs and workspaces with a finite random pattern, runs the whole plan once,
  // times it from outside, checks guards and that inputs are unchanged, and copies the outputs out. `inputs`
  // and `outputs` follow the task's tensors of that role, in order; an output that is too small is made to
  // fit. After a Fault the session is dead.
  virtual tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                          const RunOptions&) = 0;
  // True where an output element still holds this run's poison; call after run().
  virtual std::size_t unwritten_elements() const = 0;
};

struct Ceilings {
  double flops = 0.0;             // per second, the most this device was seen to do
  double bytes_per_second = 0.0;  // from memory beyond the last cache, read + write
  double cached_bytes_per_second = 0.0;
  double handshake_s = 0.0;  // an empty kernel
};

class Instruments;  // instruments.hpp

class Device {  // not thread-safe
 public:
  virtual ~Device() = default;
  virtual const Facts& facts() const = 0;
  virtual std::string description() const = 0;  // "AMD EPYC, 2 cores, AVX-512"
  virtual const Ceilings& ceilings() = 0;       // measured once, then kept
  // Measured again, and the greater of each kept: what was measured on a busy machine is too low.
  virtual const Ceilings& raise_ceilings() { return ceilings(); }
  virtual std::string isolation() const = 0;  // in words: how candidate code is kept in, and what is missing
  // What is missing of it and how to mend that, in one line; empty: nothing.
  virtual std::string weakness() const { return {}; }
  virtual tl::expected<std::unique_ptr<Session>, Fault> open(const Binary&, const Plan&,
                                                             double deadline_s) = 0;
  // A contender's library on one workload, its tensors placed, guarded and timed as a variant's. It is the
  // user's own code and runs in this process: where it crashes, the worker does.
  virtual tl::expected<std::unique_ptr<Session>, Fault> open_contender(const std::filesystem::path& library,
                                                                       const Task&, const Workload&,
                                                                       double deadline_s);
  // False after a fault that nothing in this process recovers from (a GPU's context is lost): the worker
  // answers the request and ends, and its successor starts afresh.
  virtual bool usable() const { return true; }
  // Called now and then while the device serves another worker, which may take minutes.
  virtual void while_waiting(std::function<void()>) {}
  // True: what comes now goes ahead of other workers that share the device, unless they were hastened too.
  virtual void hasten(bool) {}
  // True where runs leave the host's cores free: the judge may compute beside them.
  virtual bool apart_from_host() const { return false; }
  // Counters and samples; nullptr: this target has none. Lives as long as the device.
  virtual Instruments* instruments() { return nullptr; }
};

}  // namespace cultivar
