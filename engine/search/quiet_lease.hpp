// Shares the cores between compilers, any number at a time, and measurements, one at a time and alone.
#pragma once

#include <condition_variable>
#include <mutex>

namespace cultivar {

// Both kinds of work run in batches: one kind continues while there is more of it, then the other kind
// starts. Neither can starve, because the number of jobs in flight is bounded. Thread-safe.
class QuietLease {
 public:
  // `needed` false: nobody ever waits.
  explicit QuietLease(bool needed) : needed_(needed) {}

  // Announces work of this kind. One begin and one end must follow each announcement.
  void expect_compile() { change(compiles_expected_, 1); }
  void expect_measure() { change(measures_expected_, 1); }

  void begin_compile() {
    std::unique_lock lock(mutex_);
    // During a batch of measurements, wait until no more of them are announced.
    changed_.wait(
        lock, [&] { return !needed_ || (measuring_ == 0 && !(measure_turn_ && measures_expected_ > 0)); });
    measure_turn_ = false;
    --compiles_expected_;
    ++compiling_;
  }
  void end_compile() { change(compiling_, -1); }

  // For the engine's own computations, which must not wait: false while a measurement runs or is announced.
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
      return !needed_ || (measuring_ == 0 && compiling_ == 0 && !(!measure_turn_ && compiles_expected_ > 0));
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
};

}  // namespace cultivar
