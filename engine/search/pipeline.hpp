// How work flows: the search's loop hands out jobs, compilers, devices and models work on them side by side,
// and the loop takes back what is done, one job at a time.
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
  // The evaluator, and the correspondence if there is one, outlive the pipeline. `callers`: how many calls of
  // tools may go on at a time.
  Pipeline(Evaluator&, ModelDialogues*, int callers);
  ~Pipeline();  // waits for everything in flight

  // --- By the thread of the loop alone. ---
  void compile(JobPtr);
  void measure(JobPtr);  // duels, confirmations and profiles before evaluations
  void ask(JobPtr);      // any number at a time: no thread waits for an answer
  void call(JobPtr);
  JobPtr next(Clock::time_point until);  // a job that came back; nullptr: none did in time
  int in_flight() const { return in_flight_; }
  // Cores for the loop's own heavy work; false: not now, something is being timed. The work must be ended.
  bool try_begin_loop_work() { return lease_.try_begin(); }
  void end_loop_work() { lease_.end_compile(); }
  void abandon_waiting();  // from now on, jobs that nobody has begun come straight back, abandoned

  // --- From within a call. ---
  // Queues with everybody's jobs, and waits. False: the watch was over, or the search about to stop, before
  // anybody began with it. What has begun is waited for.
  bool compile_probe(const JobPtr&, const Watch&);
  bool measure_probe(const JobPtr&, const Watch&);

  WorkInProgress& board() { return board_; }

 private:
  void compile_now(Job&);
  void measure_now(Job&, int device);
  bool dropped(Job&) const;  // nobody waits for it any more
  void add_returned(const JobPtr&);

  Evaluator& evaluator_;
  ModelDialogues* dialogues_;
  QuietLease lease_;
  WorkInProgress board_;
  std::atomic<bool> abandoning_{false};
  int in_flight_ = 0;  // of the loop's jobs
  std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<JobPtr> returned_jobs_;  // guarded
  oneapi::tbb::global_control threads_;
  WorkerPool compilers_, devices_;
  WorkerPool tools_;  // its calls use the others
};

}  // namespace cultivar
