// How work flows: the steward hands out jobs, compilers and devices work on them side by side, and every
// result comes back to the steward, one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/correspondence.hpp"
#include "engine/evaluator.hpp"
#include "engine/quiet_lease.hpp"
#include "operators/agent/tool_outcome.hpp"

namespace cultivar {

struct Watch;

struct Job {
  // pace: the incumbent once more; call: of an agent's tool; probe: what such a call compiles and measures.
  enum class Kind { evaluate, duel, confirm, pace, profile, ask, call, probe } kind = Kind::evaluate;
  IndividualId id = 0;

  // To be compiled: the individual itself, and then the others that the job needs.
  std::vector<Variant> variants;
  std::vector<Workload> workloads;
  Breadth breadth = Breadth::searching;

  // To be measured, one of them; the steward makes it from what was compiled.
  std::optional<EvaluateRequest> evaluate;
  std::optional<GateRequest> duel;
  std::optional<ProfileRequest> profiling;

  // To be asked: a turn of a question's dialogue. `id` is 0.
  std::int64_t asking = 0;
  std::optional<ChatOrder> order;

  // To be called, for the same question: `work` may wait for probes, and leaves `outcome`; none: interrupted.
  std::function<void(Job&)> work;
  std::optional<ToolOutcome> outcome;
  std::atomic<bool> claimed{
      false};  // a probe: by whoever works on it, or by its caller, who wants it no more

  // What came back.
  double seconds = 0.0;  // on the device
  std::optional<ServedResult> answer;
  std::vector<tl::expected<Compiled, Evaluation>> compiled;
  std::optional<Evaluation> evaluation;
  std::optional<GateReport> report;
  std::optional<ProfilePartial> profile;
  std::optional<Error> trouble;              // no worker could be had, whatever the candidate is
  std::vector<std::string> device_troubles;  // of devices that it was tried on before, in words
  bool abandoned = false;                    // not worked on, because the search is about to stop
  std::string kernel;                        // hash of machine code and plans, once compiled
};
using JobPtr = std::shared_ptr<Job>;

// What the devices and compilers are at, for the progress line. Thread-safe.
class WorkBoard {
 public:
  void put(IndividualId, std::string doing);
  void note(std::string text);
  std::vector<std::pair<IndividualId, std::string>> doing() const;
  std::string device_note() const;
  void remove(IndividualId);

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<IndividualId, std::string>> doing_;
  std::string note_;
};

class Pipeline {
 public:
  // `steward` is called with each job that comes back, and with nullptr for each wake(); never twice at a
  // time, from changing threads. It must not throw. The evaluator, and the correspondence if there is one,
  // outlive the pipeline.
  Pipeline(Evaluator&, Correspondence*, int callers, std::function<void(JobPtr)> steward);
  ~Pipeline();  // waits for everything in flight

  // Only from within the steward.
  void compile(JobPtr);
  void measure(JobPtr);  // duels, confirmations and profiles before evaluations
  void ask(JobPtr);      // any number at a time: no thread waits for an answer
  void call(JobPtr);     // on a thread of its own, of which there are as many as `callers`
  // Cores for the steward's own heavy work; false: not now, something is being timed. The work must be ended.
  bool begin_thinking() { return lease_.try_begin(); }
  void end_thinking() { lease_.end_compile(); }
  // From within a call's work: queues with everybody's jobs, and waits. False: the watch was over, or the
  // search about to stop, before anybody began with it. What has begun is waited for.
  bool compile_probe(const JobPtr&, const Watch&);
  bool measure_probe(const JobPtr&, const Watch&);
  // From any thread.
  void wake();
  void abandon_waiting();  // from now on, jobs that nobody has begun come straight back, abandoned
  void wait();             // until nothing is in flight

  WorkBoard& board() { return board_; }

 private:
  void compile_now(Job&);
  void measure_now(Job&, int device);

  struct Graph;
  Evaluator& evaluator_;
  QuietLease lease_;
  WorkBoard board_;
  std::atomic<bool> abandoning_{false};
  std::unique_ptr<Graph> graph_;
};

}  // namespace cultivar
