// SPDX-License-Identifier: Apache-2.0
// Distributes jobs: the search loop sends them, compilers, devices and models work on them concurrently, and
// the loop takes the finished ones back, one at a time.
#pragma once

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
  // The evaluator and the dialogues (may be nullptr) outlive the pipeline. `callers`: the number of
  // concurrent tool calls.
  Pipeline(Evaluator&, ModelDialogues*, int callers);
  ~Pipeline();  // waits for everything in flight

  // --- Only for the thread of the search loop. ---
  void compile(JobPtr);
  // Duels, confirmations, pace and profiles go first, then kernels that a language model or a user wrote.
  void measure(JobPtr);
  void ask(JobPtr);  // any number at a time; no thread waits for the answer
  void call(JobPtr);
  JobPtr next(Clock::time_point until);  // waits for a returned job; nullptr if none returns in time
  int in_flight() const { return in_flight_; }
  // Takes the lease for the loop's own heavy work. Does not wait: false if something is or is about to be
  // measured. If true, end_loop_work() must follow.
  bool try_begin_loop_work() { return lease_.try_begin(); }
  void end_loop_work() { lease_.end_compile(); }
  // From now on, droppable jobs that no worker has started return at once, abandoned.
  void abandon_waiting();

  // --- For tool calls, from any thread. ---
  // Queues the probe among all other jobs and waits for it. False: the watch ended or the search began to
  // stop before a worker started it. A started probe is always waited for.
  bool compile_probe(const JobPtr&, const Watch&);
  bool measure_probe(const JobPtr&, const Watch&);

  int starting_workers() const { return devices_.preparing(); }
  const WorkInProgress& board() const { return board_; }

 private:
  void compile_now(Job&);
  void measure_now(Job&, int device);
  void announce(Job&);       // before its measurement
  void withdraw(Job&);       // after it, whether a worker began it or none could be had
  bool dropped(Job&) const;  // its result is no longer needed; claims a probe
  void add_returned(const JobPtr&);

  Evaluator& evaluator_;
  ModelDialogues* dialogues_;
  QuietLease lease_;
  WorkInProgress board_;
  std::atomic<bool> abandoning_{false};
  int in_flight_ = 0;  // jobs that the loop has not taken back
  std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<JobPtr> returned_jobs_;  // guarded by mutex_
  WorkerPool compilers_, devices_;
  WorkerPool tools_;  // last member: its calls use the other pools
};

}  // namespace cultivar
