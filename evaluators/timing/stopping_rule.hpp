// When one variant has been timed often enough on one workload. For reports; whether a variant is *better* is
// the gate's question alone.
#pragma once

#include <cstddef>
#include <deque>
#include <string_view>

namespace cultivar {

struct StoppingOptions {
  int min_samples = 20, max_samples = 200;
  double max_seconds = 20.0;  // of timed work
  double max_error = 0.001;   // standard error of the mean, relative to the mean
  // nvbench's rule for work that is noisy by nature (stdrel_criterion): the relative deviation of all samples
  // so far, tracked over the last `noise_window` samples, varies by less than `noise_spread` of itself.
  int noise_window = 512, min_noise_samples = 64, noise_check_every = 16;
  double noise_spread = 0.05;
};

enum class StopReason { not_yet, precise, noise_stable, samples_spent, seconds_spent };
std::string_view name_of(StopReason);

// Counts samples and says when to stop; keeps no samples. A value.
class StoppingRule {
 public:
  // Throws std::invalid_argument for options that make no sense.
  explicit StoppingRule(StoppingOptions options = {});

  // Throws std::invalid_argument for a time that is not positive and finite.
  void add(double seconds);

  bool done() const { return reason() != StopReason::not_yet; }
  StopReason reason() const;
  int samples() const { return samples_; }
  double mean() const { return mean_; }
  double relative_error() const;  // of the mean; infinite for fewer than two samples

 private:
  double relative_deviation() const;
  bool noise_is_stable() const;

  StoppingOptions options_;
  int samples_ = 0;
  double mean_ = 0.0, squares_ = 0.0, seconds_ = 0.0;  // Welford's recurrence
  std::deque<double> noise_;                           // relative deviation after each of the last samples
  bool stable_ = false;                                // of the last check, which is made every few samples
};

}  // namespace cultivar
