// SPDX-License-Identifier: Apache-2.0
// Distributes jobs: the search loop sends them, compilers, devices and models work on them concurrently, and
// the loop takes the finished ones back, one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/evaluator.hpp"
#include "engine/search/job.hpp"
#include "engine/search/model_dialogues.hpp"
#include "engine/search/worker_pool.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// The individuals in the pipeline and what is done with each, for the progress line.
// Thread-safe.
class WorkInProgress {
 public:
  struct Entry {
    IndividualId id = 0;
    InFlight::Doing doing = InFlight::Doing::waiting_for_compiler;
    std::string note = {};  // what its worker says
    Clock::time_point since = Clock::now();
  };

  void put(const Job& job, InFlight::Doing doing) {
    if (job.id == 0) return;
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(&job, Entry{job.id, doing});
  }
  void remove(const Job& job) {
    const std::lock_guard lock(mutex_);
    entries_.erase(&job);
  }
  void note(const Job& job, std::string text) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(&job); found != entries_.end()) found->second.note = std::move(text);
  }
  // What the individual that is furthest is at, and for how long: "#1 is being compiled (12 s)". One that is
  // compiled for a duel or a confirmation goes first, since all others wait for it. Empty if none is on its
  // way to its measurement, if it has been there for a shorter time, or during a duel or a confirmation.
  std::string step(double least_seconds) const;
  std::vector<Entry> entries() const {  // sorted by individual
    const std::lock_guard lock(mutex_);
    std::vector<Entry> all;
    for (const auto& [job, entry] : entries_) all.push_back(entry);
    std::ranges::sort(all, {}, &Entry::id);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const Job*, Entry> entries_;
};

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
