// SPDX-License-Identifier: Apache-2.0
// Timed runs of one workload. Each has inputs that no earlier run had, poisoned outputs, and a secret sample
// of rows compared with the oracle afterwards: no time counts without a check.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/judge/stages.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/timing/timing_stock.hpp"

namespace cultivar {

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
