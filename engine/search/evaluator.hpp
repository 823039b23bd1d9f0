// The interface through which a search compiles, evaluates and compares: implemented by the real workers, and
// by simulated results in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

class Evaluator {
 public:
  using Note = std::function<void(const std::string&)>;  // the current step of the device, as text

  virtual ~Evaluator() = default;

  // Called once, before anything else. Returns the configured devices that respond; they are of one kind.
  // Error: none responds, their times are not comparable, or a worker program is missing.
  virtual Expected<std::vector<DeviceInfo>> devices() = 0;
  // After devices(): a message for each device that does not respond. The search continues without them.
  virtual std::vector<std::string> left_out() const { return {}; }
  virtual std::string compiler_identity() = 0;
  virtual std::string compiler_weakness() {
    return {};
  }  // what the compiler could read although it should not; empty if nothing
  // True if compiling disturbs measurements, because both use the same cores.
  virtual bool timing_needs_quiet() const = 0;
  virtual int compile_workers() const = 0;
  virtual int device_workers() const = 0;  // after devices()

  // Thread-safe.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     Breadth) = 0;
  // A contender's library, by its name in the catalogue or by path. Throws InputError if it does not exist.
  virtual Compiled contender(const std::string& library) = 0;
  // `worker` is the index of the device worker, which takes one call at a time.
  virtual Expected<Evaluation> evaluate(int worker, const EvaluateRequest&, const Note&) = 0;
  virtual Expected<GateReport> gate(int worker, const GateRequest&, const Note&) = 0;
  virtual Expected<ProfilePartial> profile(int worker, const ProfileRequest&, const Note&) = 0;
  // From any thread: all calls, in flight and later, return soon; their results have no meaning.
  virtual void interrupt() = 0;
};

struct Runtime;
// The workers of this machine. They are started at the first call.
std::unique_ptr<Evaluator> make_worker_evaluator(const Config&, const std::filesystem::path& task_folder,
                                                 const Runtime&);

}  // namespace cultivar
