// What a device is to the cascade. A target is one folder beside this file: it compiles variants and runs
// them. Everything here lives in a worker program, never in the engine.
#pragma once

#include <filesystem>
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
};

class Compiler {  // thread-safe
 public:
  virtual ~Compiler() = default;
  // The exact compiler and flags: part of every cache key and of the record's environment.
  virtual std::string identity() const = 0;
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
    too_short
  } kind = Kind::crashed;
  std::string detail;  // in words, with the signal, the buffer and offset, the system call, ...
};
std::string_view name_of(Fault::Kind);

struct RunOptions {
  bool timed = false;  // flush caches first, take the device for oneself
  std::uint64_t poison_seed = 0;
  double deadline_s = 10.0;
};

// One variant bound to one workload on one device: buffers placed, guarded, code loaded. Not thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Writes the inputs, poisons outputs and workspaces with a finite random pattern, runs the whole plan once,
  // times it from outside, checks guards and that inputs are unchanged, and copies the outputs out. `inputs`
  // and `outputs` follow the task's tensors of that role, in order. After a Fault the session is dead.
  virtual tl::expected<Sample, Fault> run(std::span<const std::vector<std::byte>> inputs,
                                          std::span<std::vector<std::byte>> outputs, const RunOptions&) = 0;
  // True where an output element still holds this run's poison; call after run().
  virtual std::size_t unwritten_elements() const = 0;
};

struct Ceilings {
  double flops = 0.0;             // per second, the most this device was seen to do
  double bytes_per_second = 0.0;  // from memory beyond the last cache, read + write
  double cached_bytes_per_second = 0.0;
  double handshake_s = 0.0;  // an empty kernel
};

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
};

}  // namespace cultivar
