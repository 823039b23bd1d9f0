// SPDX-License-Identifier: Apache-2.0
// Decides when one variant has been timed often enough on one workload. Only for reports; only the gate
// decides whether a variant is *better*.
#pragma once

#include <cstddef>
#include <deque>
#include <string_view>

namespace cultivar {

struct StoppingOptions {
  int min_samples = 20, max_samples = 200;
  double max_seconds = 20.0;  // limit on the timed work
  double max_error = 0.001;   // standard error of the mean, relative to the mean
  // nvbench's rule for inherently noisy work (stdrel_criterion): the relative deviation of all samples so
  // far, tracked over the last `noise_window` samples, varies by less than `noise_spread` of itself.
  int noise_window = 512, min_noise_samples = 64, noise_check_every = 16;
  double noise_spread = 0.05;
};

enum class StopReason { not_yet, precise, noise_stable, samples_spent, seconds_spent };
std::string_view name_of(StopReason);

// Counts samples and decides when to stop; does not store samples. A value type.
class StoppingRule {
 public:
  // Throws std::invalid_argument for invalid options.
  explicit StoppingRule(StoppingOptions options = {});

  // Throws std::invalid_argument for a time that is not positive and finite.
  void add(double seconds);

  bool done() const { return reason() != StopReason::not_yet; }
  StopReason reason() const;
  int samples() const { return samples_; }
  double mean() const { return mean_; }
  double relative_error() const;  // relative error of the mean; infinite for fewer than two samples

 private:
  double relative_deviation() const;
  bool noise_is_stable() const;

  StoppingOptions options_;
  int samples_ = 0;
  double mean_ = 0.0, squares_ = 0.0, seconds_ = 0.0;  // Welford's recurrence
  std::deque<double> noise_;                           // relative deviation after each of the last samples
  bool stable_ = false;  // result of the last check; it is made every few samples
};

}  // namespace cultivar
