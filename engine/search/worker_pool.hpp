// Where jobs wait for one of a few workers: compilers, devices, or the tools of agents.
#pragma once

#include <oneapi/tbb/task_arena.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/search/job.hpp"

namespace cultivar {

// Each busy worker is a TBB task, in an arena with a thread for each of them because they wait for other
// processes. Among devices, a worker that cannot be had hands its job to another, and is left out when that
// happens again. Thread-safe.
class WorkerPool {
 public:
  using Work = std::function<void(Job&, int worker)>;  // may throw
  using Done = std::function<void(const JobPtr&)>;     // called by the worker's task

  WorkerPool(int workers, bool of_devices, Work);
  ~WorkerPool();  // waits for all that was pushed

  void push(JobPtr, bool urgent, Done);

 private:
  using Waiting = std::pair<JobPtr, Done>;
  void begin_tasks();  // for free workers, as far as jobs wait; under the mutex
  void serve(int worker);
  bool handed_over(Waiting&, int worker);

  const Work work_;
  const bool of_devices_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Waiting> waiting_;
  std::deque<int> free_;       // workers
  std::vector<int> troubles_;  // in a row, by worker; each is its task's own
  int busy_ = 0, usable_;
  oneapi::tbb::task_arena arena_;
};

}  // namespace cultivar
