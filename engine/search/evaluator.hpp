// What a search asks of the outside: compile, judge, compare. Over the real workers, or over recorded results
// in tests.
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
  using Note = std::function<void(const std::string&)>;  // what the device is at, in words

  virtual ~Evaluator() = default;

  // Asked once, before anything else: those of the configuration that answer, which are cards of one kind. An
  // Error: none does, their times could not be compared, or a worker program is missing.
  virtual Expected<std::vector<DeviceInfo>> devices() = 0;
  // After devices(), in words: each that does not answer. The search goes on without them.
  virtual std::vector<std::string> left_out() const { return {}; }
  virtual std::string compiler_identity() = 0;
  virtual std::string compiler_weakness() {
    return {};
  }  // what it could read that it should not; empty: nothing
  // True where a compiler at work would disturb what is being timed: they share the cores.
  virtual bool timing_needs_quiet() const = 0;
  virtual int compile_workers() const = 0;
  virtual int device_workers() const = 0;  // after devices()

  // Thread-safe.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     Breadth) = 0;
  // A contender's library, by the catalogue's name or by path. Throws InputError when it is not there.
  virtual Compiled contender(const std::string& library) = 0;
  // `worker` counts the device workers. One call at a time for each.
  virtual Expected<Evaluation> evaluate(int worker, const EvaluateRequest&, const Note&) = 0;
  virtual Expected<GateReport> gate(int worker, const GateRequest&, const Note&) = 0;
  virtual Expected<ProfilePartial> profile(int worker, const ProfileRequest&, const Note&) = 0;
  // From any thread: calls in flight, and all later ones, come back soon, as Errors or rejections that mean
  // nothing.
  virtual void interrupt() = 0;
};

struct Runtime;
// The workers of this machine. Nothing is started before the first call.
std::unique_ptr<Evaluator> make_worker_evaluator(const Config&, const std::filesystem::path& task_folder,
                                                 const Runtime&);

}  // namespace cultivar
