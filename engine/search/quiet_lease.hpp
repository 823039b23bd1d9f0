// Who may use the cores: any number of compilers, or one measurement with nobody beside it.
#pragma once

#include <condition_variable>
#include <mutex>

namespace cultivar {

// Both sides work in batches: as long as there is work of the kind that is going on, it goes on, and then
// they change over. Neither can starve, because what is in flight is bounded. Thread-safe.
class QuietLease {
 public:
  // `needed` false: everybody may always work.
  explicit QuietLease(bool needed) : needed_(needed) {}

  // Work of this kind is on its way; every expect must be followed by one begin and one end.
  void expect_compile() { change(compiles_expected_, 1); }
  void expect_measure() { change(measures_expected_, 1); }

  void begin_compile() {
    std::unique_lock lock(mutex_);
    // While measurements are going on, wait until no more of them are ready.
    changed_.wait(
        lock, [&] { return !needed_ || (measuring_ == 0 && !(measure_turn_ && measures_expected_ > 0)); });
    measure_turn_ = false;
    --compiles_expected_;
    ++compiling_;
  }
  void end_compile() { change(compiling_, -1); }

  // For the engine's own heavy work, which must not wait: false while anything is or is about to be measured.
  // When true, end_compile() must follow.
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
