// Passes jobs from the search's loop to compilers, devices and models, which work concurrently, and returns
// finished jobs to the loop, one at a time.
#pragma once

#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "engine/search/evaluator.hpp"
#include "engine/search/job.hpp"
#include "engine/search/model_dialogues.hpp"
#include "engine/search/quiet_lease.hpp"
#include "engine/search/work_in_progress.hpp"
#include "engine/search/worker_pool.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

struct Watch;

class Pipeline {
 public:
  // The evaluator and the dialogues, which may be nullptr, outlive the pipeline. `callers`: the maximum
  // number of concurrent tool calls.
  Pipeline(Evaluator&, ModelDialogues*, int callers);
  ~Pipeline();  // waits for everything in flight

  // --- Only for the loop's thread. ---
  void compile(JobPtr);
  void measure(JobPtr);  // duels, confirmations and profiles before evaluations
  void ask(JobPtr);      // any number at a time: no thread waits for the answer
  void call(JobPtr);
  JobPtr next(Clock::time_point until);  // a finished job; nullptr after `until`
  int in_flight() const { return in_flight_; }
  // Reserves the cores for the loop's own computations; false while something is timed. If true,
  // end_thinking() must follow.
  bool begin_thinking() { return lease_.try_begin(); }
  void end_thinking() { lease_.end_compile(); }
  void abandon_waiting();  // from now on, jobs that have not begun return at once, abandoned

  // --- Within a tool call. ---
  // Queues the job with all others and waits for it. False: the deadline passed or the search is stopping,
  // and the job has not begun. A job that has begun is waited for.
  bool compile_probe(const JobPtr&, const Watch&);
  bool measure_probe(const JobPtr&, const Watch&);

  WorkInProgress& board() { return board_; }

 private:
  void compile_now(Job&);
  void measure_now(Job&, int device);
  bool dropped(Job&) const;  // its result is no longer needed
  void come_back(const JobPtr&);

  Evaluator& evaluator_;
  ModelDialogues* dialogues_;
  QuietLease lease_;
  WorkInProgress board_;
  std::atomic<bool> abandoning_{false};
  int in_flight_ = 0;  // the loop's jobs
  std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<JobPtr> back_;  // guarded
  oneapi::tbb::global_control threads_;
  WorkerPool compilers_, devices_;
  WorkerPool tools_;  // its jobs use the other two
};

}  // namespace cultivar
