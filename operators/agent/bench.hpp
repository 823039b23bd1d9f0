// SPDX-License-Identifier: Apache-2.0
// The interface behind an agent's tools: known kernels, a compiler, a device, and submission. The engine
// implements it (engine/benches); tests have a simulated bench.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "evaluators/judge/requests.hpp"
#include "evaluators/system/clock.hpp"
#include "operators/agent/tool_outcome.hpp"
#include "operators/knowledge/knowledge.hpp"

namespace cultivar {

// The limits of one call: when it must end, and a callback for progress. `progress` may be empty, and may be
// called from any thread.
struct Watch {
  std::stop_token stop;
  Clock::time_point deadline = Clock::time_point::max();
  std::function<void(const std::string&)> progress;

  bool over() const { return stop.stop_requested() || Clock::now() >= deadline; }
  void tell(const std::string& step) const {
    if (progress) progress(step);
  }
};

// A row of the lineage.
struct KernelRow {
  std::string id;  // as tools accept it: "12", or a seed's name
  std::vector<std::string> parents;
  std::string state;          // "measured", "rejected", "in flight", "not evaluated"
  std::string stage, reason;  // for a rejected kernel
  double fitness = 0.0;       // from its duel, if there was one
  std::string duel;           // "+4.4 % (+3.9 to +5.0 %) side by side with #12"; empty: one measurement
  bool best = false, was_best = false, draft = false;
  std::string op, note;
  Configuration configuration;
};

struct Kernel {
  KernelRow row;
  std::string source;
  std::optional<Evaluation> evaluation;
  std::optional<Profile> profile;    // the most recent one
  std::vector<std::string> remarks;  // further facts, one line each
};

struct KernelQuery {
  enum class Order { promotions, fittest, newest } order = Order::promotions;
  std::string of;     // if not empty: the lineage of this kernel from the seed, and its children
  std::string state;  // if not empty: only kernels in this state
  int limit = 30, offset = 0;
};

// What became of a kernel.
struct Outlook {
  bool settled = false;  // nothing more will be decided about it by itself
  std::string words;     // one line
};

struct Page {
  std::string name, title;
};

// Limits for one workload timed against another kernel: short, because an agent waits for it and the gate
// decides.
inline Sampling benchmark_sampling(Sampling sampling) {
  sampling.max_samples = std::min(sampling.max_samples, 30);
  sampling.max_seconds = std::min(sampling.max_seconds, 5.0);  // of timed work
  return sampling;
}

// Thread-safe, except that only one call of evaluate() or profile() may run at a time. A function that takes
// a Watch returns soon after the watch is over; its result is then meaningless.
class Bench {
 public:
  virtual ~Bench() = default;

  virtual const Task& task() const = 0;
  virtual const std::vector<Workload>& workloads() const = 0;  // the timed workloads, never the holdout
  virtual Target target() const = 0;
  virtual std::string unit() const = 0;          // of fitness
  virtual std::string architecture() const = 0;  // "sm_90a"; empty: unknown
  // The device's facts, if they are known without querying it.
  virtual std::optional<Facts> facts() const = 0;
  virtual Sampling sampling() const = 0;
  // True if a running compiler would disturb timing.
  virtual bool timing_needs_quiet() const = 0;

  virtual std::string situation() const = 0;  // the current state of the run and its best kernel, as text
  virtual std::string caveat()
      const = 0;  // why times may be unreliable now; empty if there is no known reason
  virtual Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const = 0;
  // By the id of a row, a prefix of a variant id, `best` or `seed`.
  virtual Expected<Kernel> kernel(const std::string& id) const = 0;
  // The drafts of other conversations about the run, newest first; their ids are as kernel() accepts them.
  virtual std::vector<KernelRow> drafts() const { return {}; }
  // A call of this conversation has ended: shows its drafts, and what it said about one, to all other
  // conversations about the run.
  virtual Expected<void> share(const ToolOutcome&) { return {}; }
  // What was tried before that is nearly the same change of the kernel `from` (empty: its base is unknown),
  // and what that gave; empty: nothing is known.
  virtual std::string similar(const Variant&, const std::string& /*from*/) const { return {}; }
  // By a row's id or a variant id.
  virtual Expected<Outlook> outlook(const std::string& id) const;
  virtual const std::vector<Note>& notes() const = 0;
  // Where all conversations about the run leave notes for each other; empty: they are not shared.
  virtual std::filesystem::path notes_file() const { return {}; }
  virtual std::vector<Page> pages()
      const = 0;  // in addition to the notes: the task, the variant format, the device
  virtual Expected<std::string> page(const std::string& name) = 0;

  // Like the services of evaluators/worker/services.hpp. May throw MissingError.
  virtual tl::expected<Compiled, Evaluation> compile(const Variant&, const std::vector<Workload>&,
                                                     const Watch&) = 0;
  virtual Expected<Evaluation> evaluate(const EvaluateRequest&, const Watch&) = 0;
  virtual Expected<ProfilePartial> profile(const ProfileRequest&, const Watch&) = 0;

  // The device time used by all calls so far, if the device is shared with others; nullopt if a call has the
  // device exclusively, so that its wall time is its device time.
  virtual std::optional<double> device_seconds() const { return std::nullopt; }

  virtual bool takes_submissions() const = 0;
  // Returns the outcome as text. `from`: the kernel that it was made from; empty if unknown.
  virtual Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) = 0;
};

inline Expected<Outlook> Bench::outlook(const std::string& id) const {
  const auto found = kernel(id);
  if (!found) return tl::make_unexpected(found.error());
  return Outlook{found->row.state != "in flight", found->row.state};
}

}  // namespace cultivar
