// SPDX-License-Identifier: Apache-2.0
// The timing noise for bench-gate-rates. Each source states which part of it was measured and which part is a
// model. Times are in seconds; `effect` is the log speed of a side relative to the incumbent (0.01 = 1 %
// faster).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cultivar::bench {

// Reproducible on every standard library, unlike std::normal_distribution.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1.0p-53; }
  bool chance(double p) { return uniform() < p; }
  double exponential() { return -std::log(uniform()); }
  double normal() {
    if (spare_ready_) {
      spare_ready_ = false;
      return spare_;
    }
    const double radius = std::sqrt(2.0 * exponential()), angle = 6.283185307179586 * uniform();
    spare_ = radius * std::sin(angle);
    spare_ready_ = true;
    return radius * std::cos(angle);
  }
  double student4() { return normal() / std::sqrt(0.5 * (exponential() + exponential())); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }

 private:
  std::mt19937_64 engine_;
  double spare_ = 0.0;
  bool spare_ready_ = false;
};

// Measured for each workload: the median and quartiles of a row, its minimum, and the rate without pauses.
struct RecordedRow {
  std::string workload;
  double median = 0.0, q1 = 0.0, q3 = 0.0, least = 0.0;
};

// A GPU as recorded. Measured: the medians, the quartiles, the minima. Modeled, because only summaries were
// recorded: a two-piece normal through the quartiles, of whose variance `slow_share` is drift that
// neighboring samples share (0.3 s of memory) and the rest is drawn anew for every sample (0 = interleaving
// gains nothing, the pessimistic end); beyond the quartiles 1 % of the samples fast, anywhere down to the
// recorded minimum, and 1 % slow by 5 % on average (exponential, unbounded); and heat, an Ornstein-Uhlenbeck
// process with a deviation of 2.5 % and 4 s of memory (the recorded rested and sustained medians differ by
// 2-3 % in the median, by 9 % at the 90th percentile).
class GpuNoise {
 public:
  explicit GpuNoise(const std::vector<RecordedRow>& rows, double slow_share)
      : rows_(rows), slow_share_(slow_share) {}

  void start(Random& random) {
    heat_ = random.normal();
    slow_ = random.normal();
  }

  double sample(std::size_t workload, double effect, Random& random) {
    const RecordedRow& row = rows_[workload];
    const double u = std::sqrt(slow_share_) * slow_ + std::sqrt(1.0 - slow_share_) * random.normal();
    double log_time = std::log(row.median) - effect + 0.025 * heat_;
    log_time += u * (u < 0.0 ? row.median - row.q1 : row.q3 - row.median) / (0.6745 * row.median);
    const double rare = random.uniform();
    if (rare < 0.01)
      log_time += random.uniform() * std::log(row.least / row.median);
    else if (rare < 0.02)
      log_time += 0.05 * random.exponential();
    const double seconds = std::exp(log_time);
    forget(heat_, (seconds + overhead) / 4.0, random);
    forget(slow_, (seconds + overhead) / 0.3, random);
    return seconds;
  }

  // L2 flush, poisoning, launch gaps: not recorded, assumed.
  static constexpr double overhead = 0.2e-3;
  // Section 3 of the protocol: 10 launches and 25 ms for each side and workload.
  double warm_up() const {
    double total = 0.0;
    for (const RecordedRow& row : rows_) total += 2.0 * std::max(0.025, 10.0 * row.median);
    return total;
  }
  std::size_t workloads() const { return rows_.size(); }

 private:
  // A step of an Ornstein-Uhlenbeck process of unit variance.
  static void forget(double& state, double memories, Random& random) {
    const double kept = std::exp(-memories);
    state = kept * state + std::sqrt(1.0 - kept * kept) * random.normal();
  }

  std::vector<RecordedRow> rows_;
  double slow_share_, heat_ = 0.0, slow_ = 0.0;
};

// Cores of a shared machine. Measured: the same kernel timed twice gave single-pair ratios of 0.89-1.11 (10th
// to 90th percentile, extremes 0.76-1.22) and median-of-15 ratios of 0.96-1.02 (extremes 0.91-1.21). Modeled:
// a sample is the product of a Student-t factor with 4 degrees of freedom, scaled to give those pairs, and of
// other load that lasts 150 ms on average, one second in eight, and slows everything by 12 %. Four workloads
// of 2, 3, 5 and 8 ms.
class SharedCpuNoise {
 public:
  void start(Random& random) { neighbour_ = random.chance(0.125); }

  double sample(std::size_t workload, double effect, Random& random) {
    constexpr double medians[] = {0.002, 0.003, 0.005, 0.008};
    const double log_time = 0.045 * random.student4() - effect + (neighbour_ ? 0.12 : 0.0);
    const double seconds = medians[workload] * std::exp(log_time);
    const double dwell = neighbour_ ? 0.15 : 1.05;
    if (random.chance(1.0 - std::exp(-(seconds + overhead) / dwell))) neighbour_ = !neighbour_;
    return seconds;
  }

  static constexpr double overhead = 0.5e-3;
  double warm_up() const { return 4 * 2 * 0.05; }
  std::size_t workloads() const { return 4; }

 private:
  bool neighbour_ = false;
};

}  // namespace cultivar::bench
