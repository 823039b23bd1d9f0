// What an agent's tools ask of the world: kernels that are known, a compiler, a device, somewhere to submit
// to. The engine has the real ones (engine/agent); tests have one that measures nothing.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "evaluators/worker/requests.hpp"
#include "operators/knowledge/knowledge.hpp"

namespace cultivar {

// Of one call: when it must end, and whom to tell what it is at. `progress` may be empty and may be called
// from any thread.
struct Watch {
  std::stop_token stop;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<void(const std::string&)> progress;

  bool over() const { return stop.stop_requested() || std::chrono::steady_clock::now() >= deadline; }
  void tell(const std::string& step) const {
    if (progress) progress(step);
  }
};

// A row of the lineage.
struct KernelRow {
  std::string id;  // what tools take: "12", or a seed's name
  std::vector<std::string> parents;
  std::string state;          // "measured", "rejected", "in flight", "not judged"
  std::string stage, reason;  // of a rejection
  double fitness = 0.0;
  bool best = false, was_best = false;
  std::string op, note;
  Configuration configuration;
};

struct Kernel {
  KernelRow row;
  std::string source;
  std::optional<Evaluation> evaluation;
  std::optional<Profile> profile;    // the newest
  std::vector<std::string> remarks;  // what else happened to it, a line each
};

struct KernelQuery {
  enum class Order { promotions, fittest, newest } order = Order::promotions;
  std::string of;  // not empty: its line from the seed, and its children
  int limit = 30, offset = 0;
};

struct Page {
  std::string name, title;
};

// Thread-safe but for evaluate() and profile(), of which one at a time is called. Whatever takes a Watch
// comes back soon after it is over; what it then returns means nothing.
class Bench {
 public:
  virtual ~Bench() = default;

  virtual const Task& task() const = 0;
  virtual const std::vector<Workload>& workloads() const = 0;  // that are timed; never the holdout
  virtual TargetKind target() const = 0;
  virtual std::string unit() const = 0;          // of fitness
  virtual std::string architecture() const = 0;  // "sm_90a"; empty: unknown
  // The device's numbers, where they are known without asking it.
  virtual std::optional<Facts> facts() const = 0;
  virtual Sampling sampling() const = 0;
  // True where a compiler at work would disturb what is being timed (the cpu target).
  virtual bool timing_needs_quiet() const = 0;

  virtual std::string situation() const = 0;  // the run and its best kernel, now, in words
  virtual std::string caveat() const = 0;     // why times may be off just now; empty: nothing known
  virtual Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const = 0;
  // By the id of a row, the beginning of a variant id, `best` or `seed`.
  virtual Expected<Kernel> kernel(const std::string& id) const = 0;
  virtual const std::vector<Note>& notes() const = 0;
  virtual std::vector<Page> pages() const = 0;  // beside the notes: the task, the variant format, the device
  virtual Expected<std::string> page(const std::string& name) = 0;

  // As the services of evaluators/worker/services.hpp. May throw MissingError.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     const Watch&) = 0;
  virtual Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) = 0;
  virtual Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) = 0;

  // Used by all calls so far, where calls queue for a device that others use too; nullopt: a call has it to
  // itself, and its wall time is its use.
  virtual std::optional<double> device_seconds() const { return std::nullopt; }

  virtual bool takes_submissions() const = 0;
  // What became of it, in words. `from`: the kernel that it was made from; empty: none that is known.
  virtual Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) = 0;
};

}  // namespace cultivar
