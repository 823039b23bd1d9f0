// What a search asks of the outside: compile, judge, compare. Over the real workers, or over recorded results
// in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "evaluators/worker/requests.hpp"

namespace cultivar {

class Evaluator {
 public:
  using Note = std::function<void(const std::string&)>;  // what the device is at, in words

  virtual ~Evaluator() = default;

  // Asked once, before anything else. An Error: there is no device, no compiler or no worker program.
  virtual Expected<std::vector<DeviceInfo>> devices() = 0;
  virtual std::string compiler_identity() = 0;
  // True where a compiler at work would disturb what is being timed (the cpu target: they share the cores).
  virtual bool timing_needs_quiet() const = 0;
  virtual int compile_workers() const = 0;

  // Thread-safe.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     Breadth) = 0;
  // One call at a time for each device.
  virtual Expected<Evaluation> evaluate(int device, const EvaluateRequest&, const Note&) = 0;
  virtual Expected<GateReport> gate(int device, const GateRequest&, const Note&) = 0;
  virtual Expected<ProfilePartial> profile(int device, const ProfileRequest&, const Note&) = 0;
  // From any thread: calls in flight, and all later ones, come back soon, as Errors or rejections that mean
  // nothing.
  virtual void interrupt() = 0;
};

struct Surface;
// The workers of this machine. Nothing is started before the first call.
std::unique_ptr<Evaluator> make_worker_evaluator(const Config&, const std::filesystem::path& task_folder,
                                                 const Surface&);

}  // namespace cultivar
