// SPDX-License-Identifier: Apache-2.0
// A queue of jobs for a few workers: compilers, devices, or the tools of agents; and who of them has the
// cores.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/search/job.hpp"

namespace cultivar {

// Each worker is a thread, because it mostly waits for another process. TBB's workers compute inside the
// jobs; they are not used here, since tasks that block in one arena can keep those of another from starting
// (tests/engine/search/worker_pool_test.cpp). With devices, a job whose worker fails is given to another
// worker; a worker that fails twice in a row is not used again unless it is the last one. Thread-safe.
class WorkerPool {
 public:
  using Work = std::function<void(Job&, int worker)>;  // may throw
  using Done = std::function<void(const JobPtr&)>;     // called by the worker's thread
  // Called by the worker's thread before it takes a job. While it takes long, other workers take the jobs.
  using Prepare = std::function<Expected<void>(int worker)>;

  WorkerPool(int workers, bool of_devices, Work, Prepare = {});
  ~WorkerPool();  // waits for all pushed jobs

  void push(JobPtr, Priority, Done);  // the last urgent one is the first of all
  int preparing() const;              // workers that are being started

 private:
  struct Waiting {
    JobPtr job;
    Done done;
    Priority priority = Priority::usual;
  };
  void serve(int worker);
  std::optional<Error> prepared(int worker, std::unique_lock<std::mutex>&);
  bool handed_over(Waiting&, int troubles, int worker);

  const Work work_;
  const Prepare prepare_;
  const bool of_devices_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  int busy_ = 0, usable_;
  int preparing_ = 0, ready_ = 0;  // workers that are being started; those whose last start succeeded
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

// A lock on the cores: any number of compilers, or one measurement alone.
// Compilations and measurements alternate in batches: one kind runs as long as more of it is expected, then
// the other. Neither starves, because the number of jobs in flight is bounded. An urgent compilation ends a
// batch of measurements after the one that is running. Thread-safe.
class QuietLease {
 public:
  // If `needed` is false, nothing ever waits.
  explicit QuietLease(bool needed) : needed_(needed) {}

  // Announces work of this kind. Each call must be followed by one begin and one end, or by a withdrawal.
  void expect_compile(bool urgent = false) {
    if (urgent) change(urgent_, 1);
    change(compiles_expected_, 1);
  }
  void expect_measure() { change(measures_expected_, 1); }
  void withdraw_measure() { change(measures_expected_, -1); }

  void begin_compile(bool urgent = false) {
    std::unique_lock lock(mutex_);
    // During a batch of measurements, wait until no more are expected. If an urgent compilation is, any may
    // begin: it may need the thread of one that waits.
    changed_.wait(lock, [&] {
      return !needed_ || (measuring_ == 0 && (urgent_ > 0 || !(measure_turn_ && measures_expected_ > 0)));
    });
    measure_turn_ = false;
    --compiles_expected_;
    if (urgent) --urgent_;
    ++compiling_;
  }
  void end_compile() { change(compiling_, -1); }

  // For the engine's own heavy work. Does not wait: returns false if something is or is about to be measured.
  // If true, end_compile() must follow.
  bool try_begin() {
    const std::lock_guard lock(mutex_);
    if (needed_ && (measuring_ > 0 || (measure_turn_ && measures_expected_ > 0))) return false;
    ++compiling_;
    return true;
  }

  void begin_measure() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return !needed_ || (measuring_ == 0 && compiling_ == 0 && urgent_ == 0 &&
                          !(!measure_turn_ && compiles_expected_ > 0));
    });
    measure_turn_ = true;
    --measures_expected_;
    ++measuring_;
  }
  void end_measure() { change(measuring_, -1); }

 private:
  void change(int& count, int by) {
    {
      const std::lock_guard lock(mutex_);
      count += by;
    }
    changed_.notify_all();
  }

  const bool needed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool measure_turn_ = false;
  int compiles_expected_ = 0, measures_expected_ = 0, compiling_ = 0, measuring_ = 0;
  int urgent_ = 0;  // of the expected compilations
};

}  // namespace cultivar
