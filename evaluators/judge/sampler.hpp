// SPDX-License-Identifier: Apache-2.0
// Timed runs of one workload. Each has inputs that no earlier run had, poisoned outputs, and a secret sample
// of rows compared with the oracle afterwards: no time counts without a check.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/judge/stages.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/timing/timing_stock.hpp"

namespace cultivar {

// When one variant has been timed often enough on one workload. Only for reports; only the gate decides
// whether a variant is *better*.
struct StoppingOptions {
  int min_samples = 20, max_samples = 200;
  double max_seconds = 20.0;  // limit on the timed work
  double max_error = 0.001;   // standard error of the mean, relative to the mean
  // nvbench's rule for inherently noisy work (stdrel_criterion): the relative deviation of all samples so
  // far, tracked over the last `noise_window` samples, varies by less than `noise_spread` of itself.
  int noise_window = 512, min_noise_samples = 64, noise_check_every = 16;
  double noise_spread = 0.05;
};

enum class SamplingEnd { not_yet, precise, noise_stable, samples_spent, seconds_spent };
std::string_view name_of(SamplingEnd);

// Counts samples and decides when to stop; does not store samples. A value type.
class StoppingRule {
 public:
  // Throws std::invalid_argument for invalid options.
  explicit StoppingRule(StoppingOptions options = {});

  // Throws std::invalid_argument for a time that is not positive and finite.
  void add(double seconds);

  bool done() const { return reason() != SamplingEnd::not_yet; }
  SamplingEnd reason() const;
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

// A variant, a contender or the search's best kernel on one workload.
struct SampledSide {
  std::string name;
  std::function<tl::expected<std::unique_ptr<Session>, Evaluation>()> open;
  std::unique_ptr<Session> session = nullptr;  // opened by the first run, and reopened after noise
  std::vector<Sample> samples = {};
  std::optional<Evaluation> trouble = {};  // a contender that failed: it drops out, and this says why
  std::int64_t discarded = 0;              // runs that did not count
  std::string why_discarded = {};
  bool is_incumbent = false;  // shows the machine's speed between the variant's runs; not a contender
  double spent_s = 0.0;       // wall time of its counted runs, with their checks
};

// The inputs, secret rows and expected values of one workload. Not thread-safe.
class TimedRuns {
 public:
  // Keeps references to the task and the library.
  TimedRuns(const Task&, const TaskReference&, const Workload&, std::uint64_t seed, int oracle_rows,
            double run_deadline_s, int oracle_threads, std::shared_ptr<TimingStock> = nullptr,
            InputSource = InputSource::drawn);
  ~TimedRuns();
  // Lets the oracle work while a run is in progress, at a lower priority unless its result is awaited. Use it
  // only if runs leave the host's cores free.
  void work_beside_runs(bool awaited = false) {
    beside_ = true;
    if (!awaited) oracle_.give_way();
  }

  // Draws new inputs and new secret rows. Sides that are compared run on the same ones. `complete`: every
  // row, or as many blocks of rows as kEveryRowFlops allow.
  void next(bool complete = false);
  // One timed run on the current inputs, with its check. A fault or a wrong row is a rejection, and so are
  // too many runs that did not count: a kernel could disturb just those runs that are slow. Where most of
  // these were too short, the rejection is a fault of the host. Runs that a busy host disturbed are repeated
  // after a pause, unless the other sides are spared.
  tl::expected<Sample, Evaluation> time(SampledSide&);
  // As above without the check; the time must not be counted.
  tl::expected<Sample, Evaluation> warm(SampledSide&);

  const Workload& workload() const { return workload_; }

 private:
  const Task& task_;
  const TaskReference& library_;
  Workload workload_;
  std::uint64_t seed_, run_ = 0;
  int oracle_rows_;
  double run_deadline_s_;
  RowLayout layout_;
  tl::expected<Sample, Evaluation> run(SampledSide&);
  tl::expected<Sample, Evaluation> check(Session&, const Sample&);
  Comparison compared_sample();
  Comparison compared_completely();
  std::function<std::vector<LegalError>()> wider();  // R of the workload
  bool others_are_disturbed(const std::string& side) const;
  std::optional<Evaluation> too_many_discarded(const SampledSide&) const;

  Oracle oracle_;
  std::shared_ptr<TimingStock> stock_;
  InputPool pool_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::int64_t> rows_;
  bool complete_ = false;
  std::vector<std::vector<ElementRange>> wanted_;  // the elements of rows_, by output
  std::vector<double> exact_, rounded_;  // for rows_; empty until a run of the current inputs has ended
  struct Tally {
    std::int64_t runs = 0, by_kernel = 0, by_host = 0;  // and how many did not count
    std::int64_t too_short = 0;                         // of those by the kernel
    std::string short_run;                              // the last of these
  };
  std::map<std::string, Tally> tallies_;  // by side
  bool beside_ = false;
  std::future<std::vector<double>> ahead_;  // the future value of exact_
};

// Times sides[0] (the variant) and, interleaved in random order, the sides after it: contenders in every
// block, the incumbent in every second one, and more rarely if it is slower than the variant. Returns a
// rejection only for the variant. `incumbent_us`: see EvaluateRequest. `alive` is called before every block.
// `complete`: of one counted run, chosen secretly, every row is compared.
std::optional<Evaluation> sample(TimedRuns&, std::vector<SampledSide>& sides, const Sampling&,
                                 double incumbent_us, double give_up, std::uint64_t seed,
                                 const std::function<void()>& alive, const WarmUp& = {},
                                 bool complete = false);

// Whether pairs of runs, each in random order, tell plainly which side is faster: all of at least 5 runs of
// one side are 1.2 times as fast as every run of the other, or the pairs agree as they would by chance in
// less than one of 1000 cases (sign test). For reports only.
bool clear_difference(const std::vector<Sample>& ours, const std::vector<Sample>& theirs);

// Median, quartiles, value and ratios of the samples.
WorkloadResult summarise(const Task&, const Workload&, Target, const std::vector<SampledSide>& sides);

}  // namespace cultivar
