// SPDX-License-Identifier: Apache-2.0
#include "engine/search/worker_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace cultivar {

namespace {

// A device that fails this many times in a row is not used again.
constexpr int kDevicePatience = 2;
// Between two tries to start a worker, while others work.
constexpr auto kFirstGap = std::chrono::milliseconds(500);
constexpr std::chrono::milliseconds kLongestGap = std::chrono::minutes(5);

}  // namespace

WorkerPool::WorkerPool(int workers, bool of_devices, Work work, Prepare prepare)
    : work_(std::move(work)), prepare_(std::move(prepare)), of_devices_(of_devices), usable_(workers) {
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

void WorkerPool::push(JobPtr job, Priority priority, Done done) {
  {
    const std::lock_guard lock(mutex_);
    const auto next = std::ranges::find_if(waiting_, [&](const Waiting& other) {
      return other.priority < priority || priority == Priority::urgent;
    });
    waiting_.insert(next, {std::move(job), std::move(done), priority});
  }
  changed_.notify_one();
}

int WorkerPool::preparing() const {
  const std::lock_guard lock(mutex_);
  return preparing_;
}

// Starts the worker without the lock. An Error only if no other worker is there to take the jobs.
std::optional<Error> WorkerPool::prepared(int worker, std::unique_lock<std::mutex>& lock) {
  if (!prepare_) return std::nullopt;
  ++preparing_;
  lock.unlock();
  Expected<void> made;
  try {
    made = prepare_(worker);
  } catch (const std::exception& e) {
    made = failure(ErrorKind::missing, "", e.what());
  }
  lock.lock();
  --preparing_;
  if (made || made.error().kind == ErrorKind::interrupted) return std::nullopt;  // the job will be, too
  return made.error();
}

void WorkerPool::serve(int worker) {
  int troubles = 0;   // consecutive failures
  int unstarted = 0;  // failed starts in a row
  std::string told;   // why the last of them failed: told once
  std::unique_lock lock(mutex_);
  while (true) {
    // A job in progress may come back to the queue.
    changed_.wait(lock, [&] { return !waiting_.empty() || (closing_ && busy_ == 0); });
    if (waiting_.empty()) return;
    const auto unavailable = prepared(worker, lock);
    if (waiting_.empty()) continue;
    if (unavailable && usable_ > 1 && (ready_ > 0 || preparing_ > 0)) {
      // Others take the jobs; this one tries again, later each time.
      std::string why = fmt::format("device worker {} of the search: {}", worker, unavailable->text());
      if (why != told) waiting_.front().job->device_troubles.push_back(why);
      told = std::move(why);
      const auto gap = std::min(kLongestGap, kFirstGap * (1 << std::min(unstarted++, 10)));
      changed_.wait_for(lock, gap, [this] { return closing_; });
      continue;
    }
    if (unavailable) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      next.job->trouble = unavailable;
      next.done(next.job);
      next = {};
      lock.lock();
      --busy_;
      changed_.notify_all();
      continue;
    }
    unstarted = 0;
    told.clear();
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    ++ready_;
    lock.unlock();
    try {
      work_(*next.job, worker);
    } catch (const std::exception& e) {
      next.job->trouble = Error{ErrorKind::missing, "", e.what()};
    }
    troubles = next.job->trouble ? troubles + 1 : 0;
    const bool handed = handed_over(next, troubles, worker);
    if (!handed) next.done(next.job);
    next = {};
    lock.lock();
    --busy_;
    --ready_;
    changed_.notify_all();
    if (handed && troubles >= kDevicePatience) return;
  }
}

// Gives a job that failed on one device to the other devices. False if it did not fail, was interrupted, or
// no other device is usable; the job is then finished.
bool WorkerPool::handed_over(Waiting& job, int troubles, int worker) {
  const std::optional<Error>& trouble = job.job->trouble;
  if (!of_devices_ || !trouble || trouble->kind == ErrorKind::interrupted) return false;
  const std::lock_guard lock(mutex_);
  if (usable_ < 2) return false;
  const bool leaves = troubles >= kDevicePatience;
  if (leaves) --usable_;
  job.job->device_troubles.push_back(
      fmt::format("device worker {} of the search: {}{}", worker, trouble->text(),
                  leaves ? " (it is not used again; the other devices continue)" : ""));
  job.job->trouble.reset();
  waiting_.push_front(std::move(job));
  return true;
}

}  // namespace cultivar
