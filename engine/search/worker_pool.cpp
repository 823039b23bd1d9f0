#include "engine/search/worker_pool.hpp"

#include <fmt/format.h>

#include <optional>

namespace cultivar {

namespace {

// A device that fails this many times in a row is not used again.
constexpr int kDevicePatience = 2;

}  // namespace

WorkerPool::WorkerPool(int workers, bool of_devices, Work work)
    : work_(std::move(work)), of_devices_(of_devices), usable_(workers) {
  for (int worker = 0; worker < workers; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::push(JobPtr job, bool urgent, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (urgent)
      waiting_.emplace_front(std::move(job), std::move(done));
    else
      waiting_.emplace_back(std::move(job), std::move(done));
  }
  changed_.notify_one();
}

void WorkerPool::serve(int worker) {
  int troubles = 0;  // consecutive failures
  std::unique_lock lock(mutex_);
  while (true) {
    // A job in progress may come back to the queue.
    changed_.wait(lock, [&] { return !waiting_.empty() || (closing_ && busy_ == 0); });
    if (waiting_.empty()) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    lock.unlock();
    try {
      work_(*next.first, worker);
    } catch (const std::exception& e) {
      next.first->trouble = Error{ErrorKind::missing, "", e.what()};
    }
    troubles = next.first->trouble ? troubles + 1 : 0;
    const bool handed = handed_over(next, troubles, worker);
    if (!handed) next.second(next.first);
    next = {};
    lock.lock();
    --busy_;
    changed_.notify_all();
    if (handed && troubles >= kDevicePatience) return;
  }
}

// Gives a job that failed on one device to the other devices. False if it did not fail, was interrupted, or
// no other device is usable; the job is then finished.
bool WorkerPool::handed_over(Waiting& job, int troubles, int worker) {
  const std::optional<Error>& trouble = job.first->trouble;
  if (!of_devices_ || !trouble || trouble->kind == ErrorKind::interrupted) return false;
  const std::lock_guard lock(mutex_);
  if (usable_ < 2) return false;
  const bool leaves = troubles >= kDevicePatience;
  if (leaves) --usable_;
  job.first->device_troubles.push_back(
      fmt::format("device worker {} of the search: {}{}", worker, trouble->text(),
                  leaves ? " (it is not used again; the other devices continue)" : ""));
  job.first->trouble.reset();
  waiting_.push_front(std::move(job));
  return true;
}

}  // namespace cultivar
