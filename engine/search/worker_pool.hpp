// SPDX-License-Identifier: Apache-2.0
// A queue of jobs for a few workers: compilers, devices, or the tools of agents.
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

}  // namespace cultivar
