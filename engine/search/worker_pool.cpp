#include "engine/search/worker_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cultivar {

namespace {

// A device that fails this many times in a row is not used again.
constexpr int kDevicePatience = 2;

}  // namespace

WorkerPool::WorkerPool(int workers, bool of_devices, Work work)
    : work_(std::move(work)),
      of_devices_(of_devices),
      free_(static_cast<std::size_t>(workers)),
      troubles_(static_cast<std::size_t>(workers)),
      usable_(workers),
      arena_(std::max(1, workers), 0) {
  std::iota(free_.begin(), free_.end(), 0);
}

WorkerPool::~WorkerPool() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0; });
}

void WorkerPool::push(JobPtr job, bool urgent, Done done) {
  const std::lock_guard lock(mutex_);
  if (urgent)
    waiting_.emplace_front(std::move(job), std::move(done));
  else
    waiting_.emplace_back(std::move(job), std::move(done));
  begin_tasks();
}

void WorkerPool::begin_tasks() {
  for (std::size_t due = waiting_.size(); due > 0 && !free_.empty(); --due) {
    const int worker = free_.front();
    free_.pop_front();
    ++busy_;
    arena_.enqueue([this, worker] { serve(worker); });
  }
}

void WorkerPool::serve(int worker) {
  std::unique_lock lock(mutex_);
  bool usable = true;
  while (usable && !waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      work_(*next.first, worker);
    } catch (const std::exception& e) {
      next.first->trouble = Error{ErrorKind::missing, "", e.what()};
    }
    int& troubles = troubles_[static_cast<std::size_t>(worker)];
    troubles = next.first->trouble ? troubles + 1 : 0;
    if (handed_over(next, worker))
      usable = troubles < kDevicePatience;
    else
      next.second(next.first);
    next = {};
    lock.lock();
  }
  if (usable) free_.push_back(worker);
  if (--busy_ == 0) idle_.notify_all();
}

// Gives a job that failed on one device to the other devices. False if it did not fail, was interrupted, or
// no other device is usable; the job is then finished.
bool WorkerPool::handed_over(Waiting& job, int worker) {
  const std::optional<Error>& trouble = job.first->trouble;
  if (!of_devices_ || !trouble || trouble->kind == ErrorKind::interrupted) return false;
  const std::lock_guard lock(mutex_);
  if (usable_ < 2) return false;
  const bool leaves = troubles_[static_cast<std::size_t>(worker)] >= kDevicePatience;
  if (leaves) --usable_;
  job.first->device_troubles.push_back(
      fmt::format("device worker {} of the search: {}{}", worker, trouble->text(),
                  leaves ? " (it is not used again; the other devices continue)" : ""));
  job.first->trouble.reset();
  waiting_.push_front(std::move(job));
  begin_tasks();
  return true;
}

}  // namespace cultivar
