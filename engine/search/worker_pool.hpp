// A queue of jobs for a fixed number of workers: compilers, devices, or agents' tools.
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

// Each busy worker is a TBB task. The arena has one thread for each worker, because workers wait for other
// processes. A device worker that is not available hands its job to another one, and is not used again if
// that happens twice. Thread-safe.
class WorkerPool {
 public:
  using Work = std::function<void(Job&, int worker)>;  // may throw
  using Done = std::function<void(const JobPtr&)>;     // called in the worker's task

  WorkerPool(int workers, bool of_devices, Work);
  ~WorkerPool();  // waits for all jobs

  void push(JobPtr, bool urgent, Done);

 private:
  using Waiting = std::pair<JobPtr, Done>;
  void begin_tasks();  // a task for each free worker while jobs wait; call with the mutex locked
  void serve(int worker);
  bool handed_over(Waiting&, int worker);

  const Work work_;
  const bool of_devices_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Waiting> waiting_;
  std::deque<int> free_;       // workers
  std::vector<int> troubles_;  // consecutive, by worker; used only by the worker's task
  int busy_ = 0, usable_;
  oneapi::tbb::task_arena arena_;
};

}  // namespace cultivar
