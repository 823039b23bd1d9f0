// SPDX-License-Identifier: Apache-2.0
// The interface through which a search compiles, evaluates and compares variants. Implemented by the real
// workers and, in tests, by recorded results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

class Evaluator {
 public:
  using Note = std::function<void(const std::string&)>;  // what the device is doing, as text for people

  virtual ~Evaluator() = default;

  // Call once, before any other function. Returns the configured devices that answer and are of one kind:
  // that of the first one with the preferred facts, or if there is none, of the first one. An Error means
  // that no device answers or that a worker program is missing.
  virtual Expected<std::vector<DeviceInfo>> devices() = 0;
  virtual void prefer(Facts) {}  // before devices(): what the search was measured on so far
  // Before devices(), which calls it about once a second, on its caller's thread, while workers start: what
  // is awaited, as text for people. If it returns false, devices() returns an Error of kind interrupted.
  using WhileStarting = std::function<bool(const std::string&)>;
  virtual void while_starting(WhileStarting) {}
  // Makes sure that this device worker runs, which may take as long as a scheduler lets it wait. Called on
  // the worker's thread, before it takes a job.
  virtual Expected<void> prepare(int /*worker*/) { return {}; }
  // After devices(): a message for each device that does not answer or is of another kind. The search
  // continues without them.
  virtual std::vector<std::string> left_out() const { return {}; }
  virtual std::vector<WorkersOf> pools() const { return {}; }  // those of now, the search's first
  virtual std::string compiler_identity() = 0;
  // A warning if the compiler could read what it should not; empty if not.
  virtual std::string compiler_weakness() { return {}; }
  // True if a running compiler would disturb measurements, because both share the cores.
  virtual bool timing_needs_quiet() const = 0;
  virtual int compile_workers() const = 0;
  virtual int device_workers() const = 0;  // after devices()

  // Thread-safe.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     Breadth) = 0;
  // A contender library, by its catalogue name or by path. Throws InputError if it does not exist.
  virtual Compiled contender(const std::string& library) = 0;
  // `worker` is the index of a device worker. Each worker accepts one call at a time.
  virtual Expected<Evaluation> evaluate(int worker, const EvaluateRequest&, const Note&) = 0;
  virtual Expected<GateReport> gate(int worker, const GateRequest&, const Note&) = 0;
  virtual Expected<ProfilePartial> profile(int worker, const ProfileRequest&, const Note&) = 0;
  // Call from any thread. Calls in flight and all later ones then return soon, with Errors or rejections that
  // say nothing about the variant.
  virtual void interrupt() = 0;
};

struct Runtime;
// Uses the workers of this machine. Starts no process before the first call.
std::unique_ptr<Evaluator> make_worker_evaluator(const Config&, const std::filesystem::path& task_folder,
                                                 const Runtime&);

}  // namespace cultivar
