// A queue of jobs for a few workers: compilers, devices, or the tools of agents.
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

// Each busy worker is a TBB task. The arena has one thread for each worker because workers wait for other
// processes. With devices, a job whose worker fails is given to another worker; a worker that fails twice in
// a row is not used again unless it is the last one. Thread-safe.
class WorkerPool {
 public:
  using Work = std::function<void(Job&, int worker)>;  // may throw
  using Done = std::function<void(const JobPtr&)>;     // called by the worker's task

  WorkerPool(int workers, bool of_devices, Work);
  ~WorkerPool();  // waits for all pushed jobs

  void push(JobPtr, bool urgent, Done);

 private:
  using Waiting = std::pair<JobPtr, Done>;
  void begin_tasks();  // starts free workers for waiting jobs; call with mutex_ locked
  void serve(int worker);
  bool handed_over(Waiting&, int worker);

  const Work work_;
  const bool of_devices_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Waiting> waiting_;
  std::deque<int> free_;       // idle workers
  std::vector<int> troubles_;  // consecutive failures, by worker; only its task accesses it
  int busy_ = 0, usable_;
  oneapi::tbb::task_arena arena_;
};

}  // namespace cultivar
